"""A policy that is a table: one row of logits for each state of a chain.

What a chain of doors shows is one token, and so is an action, so that all of
arl that trains a language model trains a table in its place: strategies roll it
out through an engine, episodes are packed, credited and learnt from by the
methods themselves. Only the forward pass is another.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from arl import episode
from arl.envs import base, keydoor
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib
from arl.rollout import stop_text

SIDES = 2
ACTIONS = ('take', 'open', 'ahead', 'back', *(f'side{i}' for i in range(SIDES)))
_STOP = tuple(range(len(ACTIONS)))


def chain(length: int) -> base.Env:
  """The key-door chain of so many doors, told without its letters.

  What is seen is `opened room held key`, where rooms are numbered from the
  start, the halls first, and what is done one of ACTIONS.
  """
  env = keydoor.make(length=length, sides=SIDES)

  def step(now, text):
    after, turn = env.step(now, _spelled(now, text))
    return after, turn._replace(text=seen(after))

  return env._replace(
    task=lambda split, index: _told(env.task(split, index)),
    step=step,
    oracle=lambda now: _acted(now, env.oracle(now)),
    anchor=seen,
  )


def _told(task: episode.Task) -> episode.Task:
  return task._replace(prompt=seen(keydoor.State(task, task.data['halls'][0])))


def _rooms(task: episode.Task) -> str:
  return task.data['halls'] + ''.join(task.data['sides'])


def seen(now: keydoor.State) -> str:
  """What is seen from a state."""
  room, key = _rooms(now.task).index(now.room), ' key' in keydoor.render(now)
  return f'{now.opened} {room} {int(now.held)} {int(key)}'


def _choices(now: keydoor.State) -> list[str]:
  """The actions by their names in the environment; '' where there is none."""
  halls, sides = now.task.data['halls'], now.task.data['sides']
  at = halls.find(now.room)
  if at < 0:
    home = next(halls[i] for i, part in enumerate(sides) if now.room in part)
    return ['take', '', '', f'go {home}', *[''] * SIDES]
  beyond = halls[at + 1] if at < len(sides) else ''
  rooms = sides[at] if at < len(sides) else ''
  return [
    'take',
    f'open {beyond}' if beyond else '',
    f'go {beyond}' if beyond else '',
    f'go {halls[at - 1]}' if at else '',
    *([f'go {room}' for room in rooms] or [''] * SIDES),
  ]


def _spelled(now: keydoor.State, action: str) -> str:
  return _choices(now)[ACTIONS.index(action)]


def _acted(now: keydoor.State, action: str) -> str:
  return ACTIONS[_choices(now).index(action)]


def states(length: int) -> list[str]:
  """All that can be seen on a chain of so many doors."""
  return [
    f'{opened} {room} {held} {key}'
    for opened in range(length + 1)
    for room in range(length * (SIDES + 1) + 1)
    for held in (0, 1)
    for key in (0, 1)
  ]


def chat(shown: Sequence[str]) -> chat_lib.Chat:
  """One token for each action and for each of the states."""
  ids = {text: len(ACTIONS) + i for i, text in enumerate(shown)}
  return chat_lib.Chat(
    opening=lambda task: [ids[task.prompt]],
    reply=lambda text: [ids[text]],
    action=lambda text: [ACTIONS.index(text)],
    decode=lambda tokens: ACTIONS[tokens[0]],
    pieces=lambda tokens: [[*ACTIONS, *shown][i] for i in tokens],
    stop=_STOP,
  )


def start(length: int, skill: float) -> dict[str, jax.Array]:
  """The parameters of a policy that follows the oracle now and then.

  In each state it takes the share `skill` from how often the oracle takes an
  action there, over tasks, and shares out the rest evenly.
  """
  shown = states(length)
  index = {text: i for i, text in enumerate(shown)}
  taken = np.full((len(shown), len(ACTIONS)), 1e-9)
  for text, action in _demonstrated(length):
    taken[index[text], ACTIONS.index(action)] += 1
  odds = taken / taken.sum(axis=1, keepdims=True)
  odds = skill * odds + (1 - skill) / len(ACTIONS)
  return {
    'table': jnp.asarray(np.log(odds), jnp.float32),
    'value': jnp.zeros(len(shown), jnp.float32),
  }


def _demonstrated(length: int) -> Iterator[tuple[str, str]]:
  """What is seen and what the oracle does there, as half of it is done."""
  env = chain(length)
  for i in range(200):
    now, rng = env.reset(env.task(base.TRAIN, i)), np.random.default_rng(i)
    for _ in range(20 * length):
      action = env.oracle(now)
      yield seen(now), action
      if rng.random() > 0.5:
        action = ACTIONS[rng.integers(len(ACTIONS))]
      now, turn = env.step(now, action)
      if turn.done:
        break


def forward(params, columns, want) -> dict[str, jax.Array]:
  """The columns of the policy; see `arl.train.forward`."""
  tokens, mask = columns['tokens'], columns['mask']
  before = jnp.pad(tokens[:, :-1], ((0, 0), (1, 0))) - len(ACTIONS)
  before = jnp.where(mask, before, 0)
  logs = jax.nn.log_softmax(params['table'][before])
  action = jnp.where(mask, tokens, 0)
  made = {
    'logp': jnp.take_along_axis(logs, action[..., None], -1)[..., 0],
    'entropy': -(jnp.exp(logs) * logs).sum(-1),
    'value': params['value'][before],
  }
  return {name: jnp.where(mask, made[name], 0) for name in want}


class Engine:
  """Samples an action of the table's; counts what it sampled.

  Attributes:
    sampled: tokens so far.
  """

  def __init__(self, params: dict[str, jax.Array], seed: int):
    self.seed, self.sampled = seed, 0
    self.set_params(params, 0)

  def set_params(self, params: Any, version: int) -> None:
    self.logp = np.asarray(jax.nn.log_softmax(params['table']), np.float64)
    self.version = version

  def generate(
    self, requests: Sequence[engine_lib.Request], sampling: engine_lib.Sampling
  ) -> list[engine_lib.Sample]:
    stop_text.refuse(sampling)
    self.sampled += len(requests)
    rows = [request.tokens[-1] - len(ACTIONS) for request in requests]
    logp = self.logp[rows]
    if sampling.temperature:
      draws = np.array([self._draw(request) for request in requests])
      below = np.cumsum(np.exp(logp), axis=1)[:, :-1] < draws[:, None]
      chosen = below.sum(axis=1)
    else:
      chosen = logp.argmax(axis=1)
    entropy = -(np.exp(logp) * logp).sum(axis=1)
    return [
      engine_lib.Sample(
        np.array([action], np.int32),
        np.array([row[action]], np.float32),
        engine_lib.STOP,
        np.array([self.version], np.int32),
        np.array([spread], np.float32) if sampling.entropy else None,
      )
      for action, row, spread in zip(chosen, logp, entropy)
    ]

  def _draw(self, request: engine_lib.Request) -> float:
    return np.random.default_rng((self.seed, *request.path)).random()

  def score(
    self, sequences: Sequence[Sequence[int]], temperature: float
  ) -> list[np.ndarray]:
    raise NotImplementedError('a table scores by `forward` alone.')

  def compiles(self) -> dict[str, int]:
    return {}
