"""Updates of arl: the step of launch.train, on columns from rows of tokens."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from arl import episode, levels, types
from arl.methods import compose, grpo
from arl.models import attention, blocks, hf
from arl.rollout import decoding, pack
from arl.train import flops, forward, optimizers, sharding, state, step
from benchmarks import cases, compiled, updates

PACKAGES = ('arl', 'jax', 'jaxlib', 'numpy')
# How an update is computed: remat, tokens of a chunk of the head. The plain one
# also holds the scores of all pairs, as attention did before it had blocks, and
# is compiled as XLA does by default.
POLICIES = {
  'plain': ('none', 0),
  'none': ('none', 0),
  'products': ('products', 128),
  'attention': ('attention', 128),
  'layer': ('layer', 128),
}
METHOD = compose.method(grpo.grpo(clip=cases.CLIP)._replace(terms=()))


def optimizer():
  """That of all sides."""
  return optimizers.adamw(
    lr=updates.RATE,
    warmup=0,
    decay=0,
    b1=updates.B1,
    b2=updates.B2,
    weight_decay=0.0,
    max_norm=updates.MAX_NORM,
  )


def columns(tokens: np.ndarray, mask: np.ndarray) -> dict[str, Any]:
  """Of rows of one sequence each, without what depends on the policy."""
  rows, width = tokens.shape
  index = np.arange(rows, dtype=np.int32)[:, None]
  return {
    'tokens': jnp.asarray(tokens),
    'positions': jnp.broadcast_to(jnp.arange(width), tokens.shape),
    'segments': jnp.ones(tokens.shape, jnp.int32),
    'mask': jnp.asarray(mask),
    'seq': levels.level(index, rows),
    'group': levels.level(index, rows),
  }


@functools.cache
def _loaded(folder: str, remat: str):
  return hf.load(folder, remat=remat)


def _columns(given, loaded, forward_pass):
  tokens, prompt = given['tokens'], int(given['prompt'])
  mask = np.zeros(tokens.shape, bool)
  mask[:, prompt:] = True
  made = columns(tokens, mask)
  read = jax.jit(lambda p, c: forward_pass(p, c, frozenset({'logp'})))
  logp = read(loaded.params, made)['logp']
  noise = jnp.zeros(logp.shape).at[:, prompt:].set(given['noise'])
  return {**made, 'old_logp': logp + noise}


def _compiled(policy, folder, seen, microbatch, credits):
  """The step under a policy, its state and what it is given; and its memory."""
  remat, chunk = POLICIES[policy]
  loaded = _loaded(folder, remat)
  forward_pass = forward.make(loaded.model, temperature=1.0, chunk=chunk)
  mesh, tx = sharding.make_mesh(), optimizer()
  with contextlib.ExitStack() as stack:
    if policy == 'plain':
      plainly = lambda name, home, other: stack.enter_context(
        mock.patch.object(home, name, other)
      )
      plainly('attend', blocks, _whole)
      plainly('options', decoding, lambda: None)
    update = step.make_train_step(
      forward_pass, METHOD, tx, microbatch=microbatch, mesh=mesh
    )
    given = sharding.shard_rows((seen, credits), mesh)
    copied = jax.tree.map(jnp.copy, loaded.params)  # a step donates its state
    start = sharding.shard_params(state.create(copied, tx), mesh)
    run, used = compiled.step(update, start, *given)
  return run, start, given, used


def _whole(query, keys, values, segments):
  mask = attention.causal(segments)
  return attention._attend(query, keys, values, mask)


def _running(run, now, given, used, outputs):
  """The work of taking one step after the other."""
  del used
  now = [now]

  def call():
    now[0], metrics = run(now[0], *given)
    return jax.block_until_ready((now[0], metrics))[1]

  def named(metrics):
    return {
      'loss': np.asarray(metrics['loss/total']),
      'norm': np.asarray(metrics['train/grad_norm']),
      **outputs,
    }

  return cases.Work(call, named)


def _rows_of(given):
  """Columns and credits of rows of tokens."""
  folder, prompt = str(given['folder']), int(given['prompt'])
  loaded = _loaded(folder, 'none')
  forward_pass = forward.make(loaded.model, temperature=1.0, chunk=128)
  seen = _columns(given, loaded, forward_pass)
  advantage = jnp.where(seen['mask'], given['advantage'][:, None], 0)
  outputs = {
    'old_logp': np.asarray(seen['old_logp'])[:, prompt:],
    'flops': np.asarray(flops.of_update(loaded.sizes, seen)),
  }
  return folder, seen, {'policy': {'advantage': advantage}}, outputs


def _update(policy, given):
  folder, seen, credits, outputs = _rows_of(given)
  made = _compiled(policy, folder, seen, len(seen['mask']), credits)
  return _running(*made, outputs)


def _memory(policy, given):
  """Nothing to time: what the compiler says of the step."""
  folder, seen, credits, _ = _rows_of(given)
  *_, used = _compiled(policy, folder, seen, len(seen['mask']), credits)
  return cases.Work(
    lambda: used, lambda found: {'temporaries': np.asarray(found)}
  )


def episodes(lengths: np.ndarray, vocab: int) -> list[episode.Episode]:
  """Of a prompt, a fourth of each, and the policy's tokens."""
  rng, made = np.random.default_rng(cases.SEED), []
  for i, length in enumerate(lengths):
    at = np.arange(length)
    mask = at >= max(1, length // 4)
    made.append(
      episode.Episode(
        task=episode.Task('task', '', {}),
        sample=i,
        tokens=rng.integers(3, vocab, length).astype(np.int32),
        mask=mask,
        logp=np.where(mask, -np.log(vocab), 0).astype(np.float32),
        rewards=((at == length - 1) * rng.random()).astype(np.float32),
        turn=np.zeros(length, np.int32),
        status=episode.FINISHED,
      )
    )
  return made


def _episodes(kind, given):
  """The same episodes, one a row or several, in microbatches of 8 rows."""
  folder, width = str(given['folder']), int(given['width'])
  loaded = _loaded(folder, 'none')
  found = episodes(given['lengths'], loaded.sizes.vocab)
  place = {'padded': pack.pad, 'packed': pack.pack}[kind]
  batch = place(found, rows=len(found), width=width, max_turns=1)
  seen = types.columns(batch)
  seen['old_logp'] = seen['rollout_logp']
  seen = jax.tree.map(jnp.asarray, seen)
  credits = jax.jit(METHOD.credit)(seen)
  return _running(*_compiled('none', folder, seen, 8, credits), {})


def _peak(given):
  del given
  return cases.Work(flops.peak, lambda found: {'peak': np.asarray(found)})


def rows() -> dict[str, Callable]:
  """Updates, their memory, padded and packed, and the fastest product."""
  made: dict[str, Callable] = {
    policy: functools.partial(_update, policy) for policy in POLICIES
  }
  for policy in POLICIES:
    made[f'memory/{policy}'] = functools.partial(_memory, policy)
  for kind in ('padded', 'packed'):
    made[kind] = functools.partial(_episodes, kind)
  return {**made, 'peak': _peak}
