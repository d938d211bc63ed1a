"""Conversations and policies that say plain numbers, to plant faults with.

A text is its ids with space between them, and a policy is the table of its
logits, so that a test can write down what is said and how likely it is.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from arl import episode, types
from arl.envs import base
from arl.models import functional, sizes, transformer
from arl.rollout import chat as chat_lib
from arl.rollout import engine, pack, strategies
from arl.train import forward, score, sharding, state, step

END = 2
ROOMY = strategies.Limits(
  max_turns=9, turn_tokens=99, context=200, response_tokens=199
)


def read(text):
  return [int(word) for word in text.split()]


def chat(*stop):
  """A chat of which every text is ids."""
  stop = stop or (END,)
  return chat_lib.Chat(
    opening=lambda task: read(task.prompt),
    reply=read,
    action=lambda text: [*read(text), stop[0]],
    decode=lambda ids: ' '.join(str(i) for i in ids if i not in stop),
    pieces=lambda ids: [str(i) for i in ids],
    stop=stop,
  )


def task(prompt, id='task'):
  return episode.Task(id, prompt, {})


def env(*observations, reward=1.0):
  """Shows the observations in turn; the last action earns the reward."""
  last = len(observations)

  def step_(state, text):
    del text
    done = state == last
    shown = '' if done else observations[state]
    return state + 1, episode.Turn(shown, reward * done, done)

  return base.Env(
    task=lambda split, index: task('1', f'{split}/{index}'),
    reset=lambda told: 0,
    step=step_,
    oracle=lambda state: '1',
    noisy=lambda state, rng: '1',
  )


def sample(ids, logp=None, finish=engine.STOP, version=0):
  """What an engine says; without log-probs, that all is equally likely."""
  logp = [-1.0] * len(ids) if logp is None else logp
  return engine.Sample(
    np.array(ids, np.int32),
    np.array(logp, np.float32),
    finish,
    np.full(len(ids), version, np.int32),
  )


class Canned:
  """An engine that gives the samples it was made with, in their order."""

  def __init__(self, *samples):
    self.samples, self.calls = list(samples), []

  def generate(self, requests, sampling):
    del sampling
    self.calls += requests
    return [self.samples.pop(0) for _ in requests]


def roll_out(said, world, prompt='1', *, stop=(END,), limits=ROOMY, samples=1):
  """The episodes of one task, by the engine `said`."""
  plan = strategies.Plan(samples, engine.Sampling(), limits, (0,))
  chat_ = chat(*stop)
  return strategies.multi_turn(said, world, chat_, [task(prompt)], plan)


def made(tokens, mask, *, rewards=0.0, id='task', logp=None, turn=None):
  """An episode as a rollout leaves it, the reward on its last token."""
  n = len(tokens)
  earned = np.zeros(n, np.float32)
  earned[-1] = rewards
  return episode.Episode(
    task=task('1', id),
    sample=0,
    tokens=np.array(tokens, np.int32),
    mask=np.array(mask, bool),
    logp=np.zeros(n, np.float32) if logp is None else np.float32(logp),
    rewards=earned,
    turn=np.zeros(n, np.int32) if turn is None else np.int32(turn),
    status=episode.FINISHED,
  )


def columns(episodes, *, rows=None, width=None, place=pack.pad):
  """Episodes as a run packs them."""
  rows = rows or len(episodes)
  width = width or max(len(one.tokens) for one in episodes)
  return types.columns(place(episodes, rows=rows, width=width, max_turns=9))


def said(ids, width=4):
  """The columns of a prompt and these sampled ids."""
  one = made([0, *ids], [0] + [1] * len(ids))
  return columns([one], width=width)


def table(vocab):
  """A model whose params are its logits, {'logits': [B, T, vocab]}."""

  def never(*unused):
    raise AssertionError('a table does nothing but say its logits')

  return functional.Model(
    init=never,
    apply=lambda params, tokens, *rest, **more: params['logits'],
    extend=never,
    attention_maxima=never,
    routes=never,
    traced=never,
    cache=never,
    logits=lambda params, hidden: hidden.astype(jnp.float32),
    vocab=vocab,
    context=99,
  )


def planted(params, batch, want):
  """A policy whose token losses are params times the column `rewards`."""
  del want
  return {'logp': -params * batch['rewards']}


def losses(rows, *, of, width=None):
  """The columns of `planted` rows with these token losses, padded to `of`."""
  made_ = [
    made([1] * (len(row) + 1), [0] + [1] * len(row), id=str(i))
    for i, row in enumerate(rows)
  ]
  longest = 1 + max(map(len, rows))
  batch = columns(made_, rows=of, width=width or longest)
  for i, row in enumerate(rows):
    batch['rewards'][i, 1 : 1 + len(row)] = row
  return batch


def update(
  params,
  batch,
  method,
  credits,
  *,
  vocab=0,
  run=None,
  microbatch=None,
  mesh=(1, 1),
  tx=None,
  count=1,
):
  """Steps of gradient descent: (state, metrics of the last).

  From a table of logits, or by another forward pass `run`.
  """
  mesh = sharding.make_mesh(data=mesh[0], fsdp=mesh[1])
  tx = tx or optax.sgd(1.0)
  run = run or forward.make(table(vocab), temperature=1.0, chunk=0)
  rows = microbatch or batch['mask'].shape[0]
  take = step.make_train_step(run, method, tx, microbatch=rows, mesh=mesh)
  now = sharding.shard_params(state.create(params, tx), mesh)
  batch, credits = sharding.shard_rows((batch, credits), mesh)
  for _ in range(count):
    now, metrics = take(now, batch, credits)
  return now, metrics


SMALL = sizes.tiny(12)._replace(layers=1, tied=False)


def uneven(size=SMALL, dtype='float32'):
  """A model whose neighbouring tokens differ by much in likelihood."""
  model, rng = transformer.make(size, dtype), np.random.default_rng(0)
  draw = lambda x: jnp.asarray(0.5 * rng.normal(size=x.shape), x.dtype)
  return model, jax.tree.map(draw, model.init(jax.random.key(0)))


def scored(model, params, batch, *, temperature=1.0, others=None):
  """The columns with those of the scoring pass, and how the engine agrees.

  Args:
    model: the policy.
    params: of it.
    batch: columns.
    temperature: that all are scored at.
    others: params of further models of its shape, by their log-prob's name.
  """
  others = others or {}
  rows = batch['mask'].shape[0]
  pass_ = _scoring(model, temperature, frozenset(others), rows)
  batch = {**batch, **pass_(params, others, batch)}
  return batch, {k: float(x) for k, x in score.agreement(batch).items()}


@functools.cache
def _scoring(model, temperature, others, rows):
  run = forward.make(model, temperature=temperature, chunk=0)
  return score.make_score(
    run,
    others | {'old_logp'},
    others=dict.fromkeys(others, run),
    microbatch=rows,
    mesh=sharding.make_mesh(data=1, fsdp=1),
  )


def logits_of(tokens, losses, vocab):
  """Logits [1, T, vocab] by which row i predicts the token i + 1 at a loss."""
  rows = np.full((1, len(tokens), vocab), -1e9, np.float32)
  rows[0, :, 0] = 0
  for i, loss in enumerate(losses):
    rows[0, i, 0] = np.log(-np.expm1(-loss))  # all else is id 0
    rows[0, i, tokens[i + 1]] = -loss
  return rows
