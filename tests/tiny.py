"""A tiny policy, an environment of letters, and configs that train in seconds.

The environment's rewards vary under a fresh policy, so that every update moves
it; the tokenizer spells little, so that samples end.
"""

import functools
import pathlib
import re
import shutil
from collections.abc import Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import tokenizers as tokenizers_lib

from arl import episode, types
from arl.envs import base
from arl.methods import compose
from arl.models import hf, sizes, tokenizers, transformer
from arl.rollout import pack
from arl.train import build, metrics, sharding
from experiments import common

_TIMED = re.compile('wall|time/.*|speed/.*|share/.*')
ALPHABET = 'abcd?.'
_TEMPLATE = (
  '{% for message in messages %}{{ message.content }}'
  "{% if message.role == 'assistant' %}{{ '!' }}{% endif %}{% endfor %}"
)


def tokenizer() -> Any:
  """A token a character of ALPHABET, and '!' to end a turn."""
  ids = {token: i for i, token in enumerate(['_', '!', *ALPHABET])}
  core = tokenizers_lib.Tokenizer(tokenizers_lib.models.WordLevel(ids))
  core.pre_tokenizer = tokenizers_lib.pre_tokenizers.Split(
    tokenizers_lib.Regex(r'[\s\S]'), 'isolated'
  )
  core.decoder = tokenizers_lib.decoders.Fuse()
  return tokenizers.wrap(core, _TEMPLATE, '_', '!')


def size(vocab: int = 8) -> sizes.Sizes:
  """One layer, as narrow as it gets."""
  return sizes.tiny(vocab)._replace(
    width=16, layers=1, heads=2, kv_heads=1, mlp_width=16, context=32
  )


def write_model(
  folder: pathlib.Path, seed: int = 0, shape: sizes.Sizes | None = None
) -> pathlib.Path:
  """A fresh policy and its tokenizer as a model folder."""
  shape = shape or size()
  params = transformer.make(shape).init(jax.random.key(seed))
  hf.save(folder, jax.device_get(params), shape)
  tokenizers.save(tokenizer(), folder)
  return folder


def letters(*, broken: str = '') -> base.Env:
  """Two turns; each earns a half if an 'a' was said.

  Args:
    broken: an action that begins with it breaks the environment; '' for none.
  """
  return base.Env(
    task=_task,
    reset=lambda task: (task.id, 0),
    step=functools.partial(_step, broken),
    oracle=lambda state: 'a',
    noisy=lambda state, rng: 'a' * int(rng.integers(1, 4)),
  )


def _task(split: str, index: int) -> episode.Task:
  id = base.task_id('letters', split, index)
  return episode.Task(id, 'abcd'[index % 4] + '?', {})


def _step(broken: str, state, text: str):
  id, turns = state
  if broken and text.startswith(broken):
    raise OSError('the letters are lost')
  reward = 0.5 * ('a' in text)
  return (id, turns + 1), episode.Turn('d', reward, turns == 1)


def episodes(
  tasks: int, samples: int, *, seed: int = 0, longest: int = 10
) -> list[episode.Episode]:
  """Random episodes: a prompt, an action, an observation, an action."""
  rng = np.random.default_rng(seed)
  made = []
  for task in range(tasks):
    for sample in range(samples):
      lengths = rng.integers(1, longest // 4 + 1, 4)
      turn = np.repeat([0, 0, 0, 1], lengths).astype(np.int32)
      mask = np.repeat([False, True, False, True], lengths)
      rewards = np.zeros(len(mask), np.float32)
      rewards[-1] = rng.integers(3)
      logp = np.where(mask, -rng.exponential(1, len(mask)), 0)
      made.append(
        episode.Episode(
          task=episode.Task(f'task/{task}', 'a', {}),
          sample=sample,
          tokens=rng.integers(0, 8, len(mask)).astype(np.int32),
          mask=mask,
          logp=logp.astype(np.float32),
          rewards=rewards,
          turn=turn,
          status=episode.FINISHED,
        )
      )
  return made


def columns(
  members: Sequence[episode.Episode], *, rows: int, width: int = 12
) -> dict[str, Any]:
  """The episodes as columns [rows, width], one a row."""
  return types.columns(pack.pad(members, rows=rows, width=width, max_turns=2))


def config(
  folder: pathlib.Path | str, **blocks: Any
) -> ml_collections.ConfigDict:
  """Four steps of two updates on a model folder.

  Args:
    folder: of `write_model`.
    **blocks: top-level settings, and updates to blocks; a method, env or
      optimizer is replaced as a whole.
  """
  made = common.base()
  made.steps = 4
  made.model.path = str(folder)
  made.method = {'name': 'grpo.dapo'}
  made.env = {'name': 'tiny.letters'}
  made.engine.slots = 16
  made.rollout.update(max_turns=2, turn_tokens=6, context=24)
  made.prompts.update(size=12, batch=4, samples=4, select='select.everything')
  made.updates.update(microbatch=4, per_batch=2)
  made.optimizer.update(lr=0.01, warmup=2, max_norm=1.0)
  made.eval.update(every=2, tasks=4, final_tasks=8)
  made.checkpoint.update(every=2, keep=3)
  for name, value in blocks.items():
    if isinstance(value, dict) and name not in ('method', 'env', 'optimizer'):
      made[name].update(value)
    else:
      made[name] = value
  return made


def _uniform(params, others, columns):
  """Scores of a policy that takes every token for equally likely."""
  del params, others
  zeros = jnp.zeros_like(columns['rollout_logp'])
  return {'old_logp': zeros - 2, 'old_entropy': zeros + 1}


def learner(
  objective: compose.Objective | compose.Term, *, rows: int
) -> build.Learner:
  """The devices' side of a run without a model: it scores and credits."""
  method = compose.method(objective)
  return build.Learner(
    mesh=sharding.make_mesh(data=2, fsdp=1),
    method=method,
    state=cast(Any, None),
    others={},
    score=_uniform,
    credit=jax.jit(method.credit),
    step=cast(Any, None),
    rows=rows,
    block=0,
  )


def rows(folder: pathlib.Path) -> list[dict[str, float]]:
  """The metrics of a run, without what the clock says."""
  return [
    {k: v for k, v in row.items() if not _TIMED.fullmatch(k)}
    for row in metrics.read(folder)
  ]


def same(left: Any, right: Any) -> None:
  """Asserts that two trees hold the same bits."""
  left, right = jax.device_get((left, right))
  jax.tree.map(np.testing.assert_array_equal, left, right)


def cut(whole: pathlib.Path, folder: pathlib.Path, step: int) -> None:
  """Makes `folder` what a kill after `step` had left of a run."""
  shutil.copytree(whole, folder)
  for path in (folder / 'checkpoints').iterdir():
    if int(path.name) > step:
      shutil.rmtree(path)
  for name in ('results.json', 'report.html', 'curves.png'):
    (folder / name).unlink()
  shutil.rmtree(folder / 'final')
