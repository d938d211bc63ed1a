"""Right moves in TextArena's games, from all that the package knows.

Each function takes the package's live game and gives an action in its words.
They may see what a player cannot: a code, a number, values to come.
"""

import collections
import itertools
from collections.abc import Callable, Mapping
from typing import Any

_MOVES = {'up': (-1, 0), 'down': (1, 0), 'left': (0, -1), 'right': (0, 1)}


def frozen_lake(game: Any) -> str:
  """The first move of a shortest path."""
  state = game.state.game_state
  grid, goal = state['grid'], tuple(state['goal_pos'])
  start = tuple(state['player_pos'])
  first, queue = {start: ''}, collections.deque([start])
  while queue and goal not in first:
    row, column = queue.popleft()
    for name, (down, right) in _MOVES.items():
      after = row + down, column + right
      inside = all(0 <= at < len(grid) for at in after)
      if inside and after not in first and grid[after[0]][after[1]] != 'H':
        first[after] = first[row, column] or f'[{name}]'
        queue.append(after)
  return first[goal]


def tower_of_hanoi(game: Any) -> str:
  """The next move of the fewest to bring all disks to C."""
  towers = game.state.game_state['towers']
  at = {disk: name for name, disks in towers.items() for disk in disks}
  target, move = 'C', ''
  # From the largest disk down: one that is not where it belongs moves there,
  # once those above it are out of the way.
  for disk in sorted(at, reverse=True):
    if at[disk] != target:
      move = f'[{at[disk]} {target}]'
      target = next(t for t in 'ABC' if t not in (at[disk], target))
  return move


def mastermind(game: Any) -> str:
  """The code."""
  return f'[{" ".join(map(str, game.state.game_state["secret_code"]))}]'


def guess_the_number(game: Any) -> str:
  """The number."""
  return f'[{game.state.game_state["game_number"]}]'


def secretary(game: Any) -> str:
  """Takes the largest value."""
  state = game.state.game_state
  best = state['draws'].index(max(state['draws']))
  return '[accept]' if state['current_idx'] - 1 == best else '[continue]'


def sudoku(game: Any) -> str:
  """The first empty cell."""
  for row, cells in enumerate(game.state.game_state['board']):
    for column, cell in enumerate(cells):
      if not cell:
        number = game.full_grid[row][column]
        return f'[{row + 1} {column + 1} {number}]'
  raise ValueError('text_arena: the Sudoku is full.')


def lights_out(game: Any) -> str:
  """The first press of the fewest that put all lights out."""
  lights = game.state.game_state['grid']
  grid = [[bool(light) for light in row] for row in lights]
  ways = [
    _chased(grid, top)
    for top in itertools.product((False, True), repeat=len(grid))
  ]
  row, column = min((way for way in ways if way is not None), key=len)[0]
  return f'[{row} {column}]'


def _chased(
  grid: list[list[bool]], top: tuple[bool, ...]
) -> list[tuple[int, int]] | None:
  """The presses that follow from those of the first row; None if they fail.

  Each later row has to put out what is still lit above it.
  """
  size, lit = len(grid), [[*row] for row in grid]
  presses, due = [], top
  for row in range(size):
    for column in range(size):
      if due[column]:
        presses.append((row, column))
        for down, right in [(0, 0), *_MOVES.values()]:
          if 0 <= row + down < size and 0 <= column + right < size:
            lit[row + down][column + right] ^= True
    due = tuple(lit[row])
  return None if any(due) else presses


ORACLES: Mapping[str, Callable[[Any], str]] = {
  'FrozenLake': frozen_lake,
  'TowerOfHanoi': tower_of_hanoi,
  'Mastermind': mastermind,
  'GuessTheNumber': guess_the_number,
  'Secretary': secretary,
  'Sudoku': sudoku,
  'LightsOut': lights_out,
}
