"""The dynamics of a grid with holes, and its best policy, from its map.

A map is rows of `A`, `H`, `.` and `G`, a line's end between them. Cells are
numbered row by row; S is their number.
"""

import functools

import numpy as np

ACTIONS = ('up', 'down', 'left', 'right')
ASIDE = ((2, 3), (2, 3), (0, 1), (0, 1))  # by action: the actions beside it
PATIENCE = 0.99  # discount of the oracle, so that it takes the shortest path

_MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))


def width(grid: str) -> int:
  """How many cells a row has."""
  return len(grid.partition('\n')[0])


def neighbor(grid: str, cell: int, action: int) -> int:
  """The cell an action leads to; a wall leaves it where it is."""
  columns, rows = width(grid), grid.count('\n') + 1
  row, column = divmod(cell, columns)
  row, column = row + _MOVES[action][0], column + _MOVES[action][1]
  if 0 <= row < rows and 0 <= column < columns:
    return row * columns + column
  return cell


def dynamics(grid: str, slip: float) -> tuple[np.ndarray, np.ndarray]:
  """P [S, 4, S] and R [S, 4] with a chance `slip` to go aside."""
  cells = grid.replace('\n', '')
  chance = np.zeros((len(cells), len(ACTIONS), len(cells)))
  for cell, mark in enumerate(cells):
    for action in range(len(ACTIONS)):
      if mark in 'HG':
        chance[cell, action, cell] = 1.0
        continue
      chance[cell, action, neighbor(grid, cell, action)] += 1.0 - slip
      for aside in ASIDE[action]:
        chance[cell, action, neighbor(grid, cell, aside)] += slip / 2
  goal = cells.index('G')
  rewards = chance[:, :, goal].copy()
  rewards[goal] = 0.0
  return chance, rewards


@functools.lru_cache(maxsize=4096)
def optimal(grid: str, slip: float, gamma: float) -> np.ndarray:
  """V* [S], to a Bellman residual of 1e-14; shared, so copy it to write."""
  chance, rewards = dynamics(grid, slip)
  values = np.zeros(len(rewards))
  while True:
    better = np.max(rewards + gamma * (chance @ values), axis=1)
    if np.max(np.abs(better - values)) <= 1e-14:
      return better
    values = better


@functools.lru_cache(maxsize=4096)
def best(grid: str, slip: float) -> tuple[int, ...]:
  """The oracle's action in each cell; of equal ones, the first."""
  chance, rewards = dynamics(grid, slip)
  values = optimal(grid, slip, PATIENCE)
  actions = rewards + PATIENCE * (chance @ values)
  return tuple(np.argmax(np.round(actions, 10), axis=1).tolist())
