"""Sokoban's rooms: drawn by playing backwards, solved by search.

A room is text in the usual characters, one line a row: `#` wall, `-` floor,
`.` goal, `$` box, `*` box on a goal, `@` player, `+` player on a goal. What
lies beyond its edges is wall.
"""

import functools
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

MOVES = {'up': (-1, 0), 'down': (1, 0), 'left': (0, -1), 'right': (0, 1)}

Cell = tuple[int, int]


class Room(NamedTuple):
  """What stays: rows, columns, and the cells of floor and goals."""

  rows: int
  columns: int
  floor: frozenset[Cell]
  goals: frozenset[Cell]


class Place(NamedTuple):
  """What moves: the player and the boxes."""

  player: Cell
  boxes: frozenset[Cell]


@functools.lru_cache(maxsize=4096)
def read(text: str) -> tuple[Room, Place]:
  """A room and the place in it.

  Raises:
    ValueError: the text is no rectangle of the characters above, with one
      player, and as many boxes as goals, one or more.
  """
  lines = text.split('\n')
  marks = {
    (row, column): mark
    for row, line in enumerate(lines)
    for column, mark in enumerate(line)
  }
  find = lambda wanted: [at for at, mark in marks.items() if mark in wanted]
  player, boxes, goals = find('@+'), find('$*'), find('.*+')
  if (
    len({len(line) for line in lines}) != 1
    or not set(marks.values()) <= set('#-.$*@+')
    or len(player) != 1
    or not len(boxes) == len(goals) >= 1
  ):
    raise ValueError(
      f'sokoban: the room {text!r} must be a rectangle of #-.$*@+ with one '
      'player and as many boxes as goals.'
    )
  floor = frozenset(find('-.$*@+'))
  room = Room(len(lines), len(lines[0]), floor, frozenset(goals))
  return room, Place(player[0], frozenset(boxes))


def write(room: Room, place: Place) -> str:
  """The room as text."""

  def mark(at: Cell) -> str:
    if at not in room.floor:
      return '#'
    goal = at in room.goals
    if at == place.player:
      return '+' if goal else '@'
    if at in place.boxes:
      return '*' if goal else '$'
    return '.' if goal else '-'

  lines = range(room.rows), range(room.columns)
  return '\n'.join(''.join(mark((r, c)) for c in lines[1]) for r in lines[0])


def moved(room: Room, place: Place, way: str) -> Place:
  """The place after a move; the same where a wall or a second box stops it."""
  target = _beside(place.player, way)
  if target not in room.floor:
    return place
  if target not in place.boxes:
    return Place(target, place.boxes)
  beyond = _beside(target, way)
  if beyond not in room.floor or beyond in place.boxes:
    return place
  return Place(target, place.boxes - {target} | {beyond})


def solved(room: Room, place: Place) -> bool:
  """Whether every box is on a goal."""
  return place.boxes == room.goals


@functools.lru_cache(maxsize=8192)
def solution(room: Room, place: Place) -> tuple[str, ...] | None:
  """The fewest moves that solve a room, None where none do.

  Breadth first over player and boxes, so exact; of equally short ones, the
  first in the order of MOVES. Places with a box in a corner are left out.
  """
  came: dict[Place, tuple[Place, str] | None] = {place: None}
  queue = [place]
  for at in queue:
    if solved(room, at):
      return tuple(_way_to(came, at))
    for way in MOVES:
      after = moved(room, at, way)
      if after not in came and not _stuck(room, after):
        came[after] = at, way
        queue.append(after)
  return None


def _way_to(came, at: Place) -> list[str]:
  ways = []
  while came[at]:
    at, way = came[at]
    ways.append(way)
  return ways[::-1]


def _beside(at: Cell, way: str) -> Cell:
  return at[0] + MOVES[way][0], at[1] + MOVES[way][1]


def _stuck(room: Room, place: Place) -> bool:
  """Whether a box is in a corner that is no goal."""
  for box in place.boxes - room.goals:
    up, down, left, right = (
      _beside(box, way) not in room.floor for way in MOVES
    )
    if (up or down) and (left or right):
      return True
  return False


def draw(
  rows: int,
  columns: int,
  walls: int,
  boxes: int,
  pulls: int,
  rng: random.Random,
) -> str | None:
  """A room made by playing backwards from its end, so that it can be solved.

  Args:
    rows: of the room.
    columns: of the room.
    walls: how many cells are wall.
    boxes: how many there are.
    pulls: moves back from the solved room.
    rng: what draws.

  Returns:
    The room as text; None where the draw leads to none: the floor falls apart,
    or no box came to lie off the goals.
  """
  cells = [(row, column) for row in range(rows) for column in range(columns)]
  rng.shuffle(cells)
  floor = frozenset(cells[walls:])
  goals = frozenset(cells[walls : walls + boxes])
  room, place = Room(rows, columns, floor, goals), Place(cells[-1], goals)
  if not _connected(floor):
    return None
  for _ in range(pulls):
    backs = list(_back(room, place))
    if not backs:
      return None
    place = rng.choice(backs)
  return None if place.boxes & goals else write(room, place)


def _connected(floor: frozenset[Cell]) -> bool:
  seen: set[Cell] = set()
  queue: Sequence[Cell] = sorted(floor)[:1]
  while queue:
    seen.update(queue)
    beside = {_beside(at, way) for at in queue for way in MOVES}
    queue = sorted((beside & floor) - seen)
  return len(seen) == len(floor)


def _back(room: Room, place: Place) -> Iterator[Place]:
  """The places from which one move leads here, those with a pull twice."""
  for way in MOVES:
    row, column = place.player
    earlier = row - MOVES[way][0], column - MOVES[way][1]
    if earlier not in room.floor or earlier in place.boxes:
      continue
    yield Place(earlier, place.boxes)
    ahead = _beside(place.player, way)
    if ahead in place.boxes:
      pulled = place.boxes - {ahead} | {place.player}
      yield from [Place(earlier, pulled)] * 2
