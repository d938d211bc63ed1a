"""A slippery grid as text, small enough to know every value exactly.

After FrozenLake (Gymnasium): `A` the agent, `H` holes, `.` ice, `G` the goal.
The whole grid is shown each turn, the actions are `up`, `down`, `left` and
`right`, walls stop, reaching the goal earns 1, and a hole or the goal ends the
episode. Cells are numbered row by row; S is their number. Arrays over actions
follow ACTIONS.
"""

import functools
import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from arl import episode
from arl.envs import base, grids

ACTIONS = grids.ACTIONS
# The maps that Gymnasium's FrozenLake-v1 comes with.
LAKES = {
  '4x4': ('A...', '.H.H', '...H', 'H..G'),
  '8x8': (
    'A.......',
    '........',
    '...H....',
    '.....H..',
    '...H....',
    '.HH...H.',
    '.H..H.H.',
    '...H...G',
  ),
}


class State(NamedTuple):
  """Where an episode stands.

  Attributes:
    task: the problem.
    cell: where the agent is.
    turns: actions so far.
    stream: which sequence of slips it meets. Slips depend on the task's id, the
      stream and the turn, so all rollouts of a task meet the same ones; to
      sample others from a state, `state._replace(stream=3)`.
  """

  task: episode.Task
  cell: int
  turns: int = 0
  stream: int = 0


def make(
  *, size: int = 3, holes: int = 2, slip: float = 0.0, fault: float = 0.6
) -> base.Env:
  """The grid environment on random maps with a path of two moves or more.

  Without slip the oracle earns 1 within size * size turns; with slip it earns
  its exact value, `policy_values(task, oracle_policy(task), 1.0)` at the start.
  No map of one split occurs in the other.

  Args:
    size: cells of a side, 3 or more.
    holes: how many cells are holes.
    slip: probability of going aside, half of it to each side of the intended
      direction. 2 / 3 is Gymnasium's slippery lake.
    fault: how often the demonstrator moves at random.
  """
  if size < 3:
    raise ValueError(f'gridworld: size is {size}; give 3 or more.')
  if not 0 <= holes <= size * size - 3:
    raise ValueError(
      f'gridworld: {holes} holes in {size} x {size} cells; leave three free.'
    )
  base.require_probabilities('gridworld', slip=slip, fault=fault)
  return base.Env(
    task=functools.partial(_task, size, holes, slip),
    reset=reset,
    step=_step,
    oracle=_oracle,
    noisy=functools.partial(_noisy, fault),
    anchor=render,
  )


def from_rows(rows: Sequence[str], slip: float = 0.0) -> episode.Task:
  """The task on a given map, with the agent at its `A`.

  Raises:
    ValueError: the rows are no rectangle of A, H, G and `.` with one A, one G.
  """
  text = '\n'.join(rows)
  cells = ''.join(rows)
  right = len({len(row) for row in rows}) == 1 and set(cells) <= set('AHG.')
  if not right or cells.count('A') != 1 or cells.count('G') != 1:
    raise ValueError(
      f'gridworld: the map {text!r} must be a rectangle of A, H, G and . with '
      'one A and one G.'
    )
  id = f'gridworld/slip={slip}/{"/".join(rows)}'
  return episode.Task(id, text, {'map': text, 'slip': slip})


def lake(name: str, slip: float = 2 / 3) -> episode.Task:
  """The task on one of LAKES; Gymnasium's own, slippery, unless told not to."""
  if name not in LAKES:
    raise ValueError(f'gridworld: no map {name!r}; maps: {", ".join(LAKES)}.')
  return from_rows(LAKES[name], slip)


def transitions(task: episode.Task) -> tuple[np.ndarray, np.ndarray]:
  """The dynamics: P [S, 4, S], and expected rewards R [S, 4], both float64.

  Holes and the goal lead to themselves and earn nothing.
  """
  return grids.dynamics(task.data['map'], task.data['slip'])


def action_values(
  task: episode.Task, values: np.ndarray, gamma: float
) -> np.ndarray:
  """Q [S, 4]: the reward of each action, then `values` [S] discounted once."""
  chance, rewards = transitions(task)
  return rewards + gamma * (chance @ values)


def optimal_values(task: episode.Task, gamma: float) -> np.ndarray:
  """V* [S], by value iteration to a Bellman residual of 1e-14.

  The reward of a goal n moves away is discounted n - 1 times. Terminal cells
  are worth 0.

  Args:
    task: the grid.
    gamma: discount in (0, 1].
  """
  _require_discount(gamma)
  return grids.optimal(task.data['map'], task.data['slip'], gamma).copy()


def policy_values(
  task: episode.Task, policy: np.ndarray, gamma: float
) -> np.ndarray:
  """V of a policy [S], by solving its linear equations.

  Args:
    task: the grid.
    policy: [S, 4], probabilities of the actions in each cell.
    gamma: discount in (0, 1]; at 1 the value is the chance to reach the goal.
  """
  _require_discount(gamma)
  chance, rewards = transitions(task)
  if policy.shape != rewards.shape:
    raise ValueError(
      f'gridworld: the policy has shape {policy.shape}; give one row of '
      f'probabilities per cell, {rewards.shape}.'
    )
  if np.any(policy < 0) or not np.allclose(policy.sum(axis=1), 1.0):
    raise ValueError(
      'gridworld: each row of the policy must be a distribution.'
    )
  moves = np.einsum('sa,sat->st', policy, chance)
  gain = np.sum(policy * rewards, axis=1)
  # Only cells from which the goal can be reached have a value, and without the
  # others the equations are regular even at gamma 1.
  live = gain > 0
  for _ in range(len(live)):
    live = live | np.any(moves[:, live] > 0, axis=1)
  inner = moves[np.ix_(live, live)]
  values = np.zeros(len(live))
  values[live] = np.linalg.solve(np.eye(len(inner)) - gamma * inner, gain[live])
  return values


def oracle_policy(task: episode.Task) -> np.ndarray:
  """The policy of the oracle, [S, 4] of 0 and 1: greedy on V*."""
  best = grids.best(task.data['map'], task.data['slip'])
  return np.eye(len(ACTIONS))[list(best)]


def reset(task: episode.Task) -> State:
  """The state at the map's `A`."""
  return State(task, _cells(task).index('A'))


def at_random(state: State, rng: np.random.Generator) -> str:
  """An action without a thought."""
  del state
  return ACTIONS[rng.integers(len(ACTIONS))]


def render(state: State) -> str:
  """The grid with the agent in its place, one line a row."""
  cells = _cells(state.task).replace('A', '.')
  cells = cells[: state.cell] + 'A' + cells[state.cell + 1 :]
  width = grids.width(state.task.data['map'])
  starts = range(0, len(cells), width)
  return '\n'.join(cells[i : i + width] for i in starts)


def _cells(task: episode.Task) -> str:
  return task.data['map'].replace('\n', '')


def _task(
  size: int, holes: int, slip: float, split: str, index: int
) -> episode.Task:
  family = f'gridworld/size={size}/holes={holes}/slip={slip}'
  id = base.task_id(family, split, index)
  rng = random.Random(id)
  grid = base.draw(split, functools.partial(_draw_map, size, holes, rng))
  return from_rows(grid.split('\n'), slip)._replace(id=id)


def _draw_map(size: int, holes: int, rng: random.Random) -> str:
  """A map whose goal can be reached, though not by the first move."""
  while True:
    marked = rng.sample(range(size * size), holes + 2)
    cells = ['.'] * (size * size)
    for cell, mark in zip(marked, 'AG' + 'H' * holes):
      cells[cell] = mark
    rows = [''.join(cells[i : i + size]) for i in range(0, len(cells), size)]
    grid = '\n'.join(rows)
    if 0.0 < grids.optimal(grid, 0.0, grids.PATIENCE)[marked[0]] < 1.0:
      return grid


def _step(state: State, text: str) -> tuple[State, episode.Turn]:
  cells = _cells(state.task)
  if cells[state.cell] in 'HG':
    raise ValueError(f'{state.task.id}: the episode is over; reset first.')
  after = state._replace(turns=state.turns + 1)
  action = text.strip()
  if action not in ACTIONS:
    shown = f'error: say {", ".join(ACTIONS)}\n{render(after)}'
    return after, episode.Turn(shown)
  way = _slipped(state, ACTIONS.index(action))
  after = after._replace(
    cell=grids.neighbor(state.task.data['map'], state.cell, way)
  )
  mark = cells[after.cell]
  return after, episode.Turn(render(after), float(mark == 'G'), mark in 'HG')


def _slipped(state: State, action: int) -> int:
  """The direction taken for the one intended."""
  seed = f'{state.task.id}/{state.stream}/{state.turns}'
  drawn = random.Random(seed).random()
  slip = state.task.data['slip']
  if drawn < slip:
    return grids.ASIDE[action][int(drawn >= slip / 2)]
  return action


def _oracle(state: State) -> str:
  data = state.task.data
  return ACTIONS[grids.best(data['map'], data['slip'])[state.cell]]


def _noisy(fault: float, state: State, rng: np.random.Generator) -> str:
  return at_random(state, rng) if rng.random() < fault else _oracle(state)


def _require_discount(gamma: float) -> None:
  if not 0 < gamma <= 1:
    raise ValueError(f'gridworld: gamma is {gamma}; give a value in (0, 1].')
