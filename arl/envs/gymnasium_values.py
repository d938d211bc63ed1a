"""Exact values of Gymnasium's tabular games, from the package's own table.

`env.P` says for each state and action what may follow. A task's data name the
game: `game`, `slippery` and, of a frozen lake, `map`. S is the number of
states, A that of actions. `arl.envs.gymnasium_text` makes the tasks.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from arl import episode
from arl.envs import extras

INSTALL = "pip install 'arl[gymnasium]'"
PATIENCE = 0.99  # discount of the oracle


class Game(NamedTuple):
  """One of the package's games.

  Attributes:
    id: its name there.
    actions: our words for its actions, in its order.
    slippery: the keyword that makes it uncertain.
  """

  id: str
  actions: tuple[str, ...]
  slippery: str


GAMES = {
  'frozen_lake': Game(
    'FrozenLake-v1', ('left', 'down', 'right', 'up'), 'is_slippery'
  ),
  'taxi': Game(
    'Taxi-v4',
    ('south', 'north', 'east', 'west', 'pickup', 'dropoff'),
    'is_rainy',
  ),
  'cliff_walking': Game(
    'CliffWalking-v1', ('up', 'right', 'down', 'left'), 'is_slippery'
  ),
}


class Dynamics(NamedTuple):
  """What the package's table says.

  Attributes:
    chance: [S, A, S], of going on from a state to another; what is missing to 1
      is the chance that the action ends the episode.
    rewards: [S, A], expected, as the package pays them.
    goals: [S, A], the chance that the action reaches the goal.
  """

  chance: np.ndarray
  rewards: np.ndarray
  goals: np.ndarray


def dynamics(task: episode.Task) -> Dynamics:
  """The table of the task's game; shared, so copy it to write."""
  return _dynamics(*key(task))


def optimal_values(task: episode.Task, gamma: float) -> np.ndarray:
  """V* [S] of the package's rewards, to a Bellman residual of 1e-12.

  Args:
    task: the game.
    gamma: discount in (0, 1).
  """
  _require_discount(gamma)
  return _optimal(*key(task), gamma).copy()


def policy_values(
  task: episode.Task, policy: np.ndarray, gamma: float
) -> np.ndarray:
  """V of a policy [S] by the package's rewards, by solving its equations.

  Args:
    task: the game.
    policy: [S, A], probabilities of the actions in each state.
    gamma: discount in (0, 1).
  """
  _require_discount(gamma)
  known = dynamics(task)
  moves, gain = _under(known, policy, known.rewards)
  return np.linalg.solve(np.eye(len(gain)) - gamma * moves, gain)


def success(task: episode.Task, policy: np.ndarray) -> np.ndarray:
  """The chance [S] that a policy [S, A] ever reaches the goal."""
  known = dynamics(task)
  moves, gain = _under(known, policy, known.goals)
  # States that never reach it are worth 0; the equations of the others are
  # regular.
  live = gain > 0
  for _ in range(len(live)):
    live = live | np.any(moves[:, live] > 0, axis=1)
  inner, values = moves[np.ix_(live, live)], np.zeros(len(live))
  values[live] = np.linalg.solve(np.eye(len(inner)) - inner, gain[live])
  return values


def oracle_policy(task: episode.Task) -> np.ndarray:
  """The policy of the oracle, [S, A] of 0 and 1: greedy on V* at PATIENCE."""
  actions = GAMES[task.data['game']].actions
  return np.eye(len(actions))[list(best(*key(task)))]


def key(task: episode.Task) -> tuple[str, bool, tuple[str, ...]]:
  """What tells the table of a task apart from others."""
  data = task.data
  return data['game'], data['slippery'], tuple(data['map'])


@functools.lru_cache(maxsize=256)
def table(name: str, slippery: bool, rows: tuple[str, ...]) -> Any:
  """The package's `env.P`: by state, by action, what may follow.

  Of each: its chance, the state, the reward, whether the episode is over.
  """
  gymnasium, game = extras.load('gymnasium', INSTALL), GAMES[name]
  keywords: dict[str, Any] = {game.slippery: slippery}
  if rows:
    keywords['desc'] = [*rows]
  return gymnasium.make(game.id, **keywords).unwrapped.P


@functools.lru_cache(maxsize=256)
def _dynamics(name: str, slippery: bool, rows: tuple[str, ...]) -> Dynamics:
  """The table as arrays; where an episode has ended, all of them are 0."""
  known, open_water = table(name, slippery, rows), holes(rows)
  states, actions = len(known), len(GAMES[name].actions)
  chance = np.zeros((states, actions, states))
  rewards, goals = np.zeros((2, states, actions))
  follow = [t for by in known.values() for ts in by.values() for t in ts]
  ends = {after for _, after, _, done in follow if done}
  for place in set(range(states)) - ends:
    for action in range(actions):
      for p, after, reward, done in known[place][action]:
        rewards[place, action] += p * reward
        if done:
          goals[place, action] += p * (after not in open_water)
        else:
          chance[place, action, after] += p
  return Dynamics(chance, rewards, goals)


def holes(rows: Sequence[str]) -> set[int]:
  """The cells of a frozen lake that end an episode without reward."""
  return {i for i, mark in enumerate(''.join(rows)) if mark == 'H'}


@functools.lru_cache(maxsize=256)
def _optimal(name: str, slippery: bool, rows: Any, gamma: float) -> np.ndarray:
  known = _dynamics(name, slippery, rows)
  values = np.zeros(len(known.rewards))
  while True:
    better = np.max(known.rewards + gamma * (known.chance @ values), axis=1)
    if np.max(np.abs(better - values)) <= 1e-12:
      return better
    values = better


@functools.lru_cache(maxsize=256)
def best(name: str, slippery: bool, rows: Any) -> tuple[int, ...]:
  """The oracle's action in each state; of equal ones, the first."""
  known = _dynamics(name, slippery, rows)
  values = _optimal(name, slippery, rows, PATIENCE)
  actions = known.rewards + PATIENCE * (known.chance @ values)
  return tuple(np.argmax(np.round(actions, 9), axis=1).tolist())


def _under(
  known: Dynamics, policy: np.ndarray, paid: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """How a policy moves [S, S], and what it is paid [S]."""
  if policy.shape != paid.shape:
    raise ValueError(
      f'gymnasium_values: the policy has shape {policy.shape}; give one row of '
      f'probabilities per state, {paid.shape}.'
    )
  if np.any(policy < 0) or not np.allclose(policy.sum(axis=1), 1.0):
    raise ValueError(
      'gymnasium_values: each row of the policy must be a distribution.'
    )
  moves = np.einsum('sa,sat->st', policy, known.chance)
  return moves, np.sum(policy * paid, axis=1)


def _require_discount(gamma: float) -> None:
  if not 0 < gamma < 1:
    raise ValueError(
      f'gymnasium_values: gamma is {gamma}; give a value in (0, 1).'
    )
