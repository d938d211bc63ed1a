"""Sokoban as text: push every box onto a goal.

The whole room is shown each turn, as `arl.envs.sokoban_rooms` spells it, and
the actions are `up`, `down`, `left` and `right`. A move against a wall changes
nothing. The last box on its goal earns 1 and ends the episode; a box in a
corner does not end it.
"""

import functools
import random
from typing import NamedTuple

import numpy as np

from arl import episode
from arl.envs import base, sokoban_rooms

ACTIONS = tuple(sokoban_rooms.MOVES)
RULES = (
  'Push every box onto a goal. # wall, - floor, . goal, $ box, * box on a '
  'goal, @ you, + you on a goal. Say one of: up, down, left, right.'
)
_DRAWS = 20_000  # of a room, before it is said that there is none


class State(NamedTuple):
  """Where an episode stands.

  Attributes:
    task: the problem.
    room: what is seen.
    turns: actions so far.
  """

  task: episode.Task
  room: str
  turns: int = 0


def make(
  *,
  rows: int = 4,
  columns: int = 4,
  walls: int = 2,
  boxes: int = 1,
  least: int = 4,
  most: int = 8,
  fault: float = 0.4,
  system: str = '',
) -> base.Env:
  """The Sokoban environment on random rooms; the oracle needs `most` turns.

  The oracle takes the fewest moves, pushes or not; where a box is lost it moves
  on in vain. A step's score is the change in the number of boxes on goals. No
  room of one split occurs in the other.

  Args:
    rows: of a room; no wall is drawn around it.
    columns: of a room.
    walls: how many cells are wall.
    boxes: how many there are.
    least: moves that a room takes at least.
    most: moves that a room takes at most.
    fault: how often the demonstrator moves at random.
    system: a system message, such as RULES.
  """
  if not 1 <= least <= most:
    raise ValueError(
      f'sokoban: rooms of {least} to {most} moves; give 1 <= least <= most.'
    )
  if boxes < 1 or walls < 0 or walls + 3 * boxes + 4 > rows * columns:
    raise ValueError(
      f'sokoban: {boxes} boxes and {walls} walls in {rows} x {columns} cells; '
      'leave 3 free for each box, and 4.'
    )
  base.require_probabilities('sokoban', fault=fault)
  shape = (rows, columns, walls, boxes, least, most)
  return base.Env(
    task=functools.partial(_task, shape, system),
    reset=reset,
    step=_step,
    oracle=oracle,
    noisy=functools.partial(_noisy, fault),
    scores_steps=True,
    anchor=lambda state: state.room,
  )


def from_room(room: str, system: str = '') -> episode.Task:
  """The task on a given room.

  Raises:
    ValueError: the text is no room, or is solved as it is.
  """
  if sokoban_rooms.solved(*sokoban_rooms.read(room)):
    raise ValueError(f'sokoban: the room {room!r} is solved.')
  id = f'sokoban/{room.replace(chr(10), "/")}'
  return episode.Task(id, room, {'room': room}, system)


def reset(task: episode.Task) -> State:
  """The state that a task begins in."""
  return State(task, task.data['room'])


def at_random(state: State, rng: np.random.Generator) -> str:
  """A move without a thought."""
  del state
  return ACTIONS[rng.integers(len(ACTIONS))]


def moves_left(state: State) -> int | None:
  """The fewest moves to the end, None where a box is lost."""
  found = sokoban_rooms.solution(*sokoban_rooms.read(state.room))
  return None if found is None else len(found)


def oracle(state: State) -> str:
  """The first of the fewest moves to the end."""
  found = sokoban_rooms.solution(*sokoban_rooms.read(state.room))
  return found[0] if found else ACTIONS[0]


def _task(
  shape: tuple[int, ...], system: str, split: str, index: int
) -> episode.Task:
  rows, columns, walls, boxes, least, most = shape
  family = (
    f'sokoban/{rows}x{columns}/walls={walls}/boxes={boxes}/moves={least}-{most}'
  )
  id = base.task_id(family, split, index)
  rng = random.Random(id)
  room = _draw(shape, split, rng)
  return from_room(room, system)._replace(id=id)


def _draw(shape: tuple[int, ...], split: str, rng: random.Random) -> str:
  """A room of the split, of so many moves."""
  rows, columns, walls, boxes, least, most = shape
  for _ in range(_DRAWS):
    pulls = rng.randint(2 * least, 4 * most)
    room = sokoban_rooms.draw(rows, columns, walls, boxes, pulls, rng)
    if room is None or base.split_of(room) != split:
      continue
    found = sokoban_rooms.solution(*sokoban_rooms.read(room))
    if found is not None and least <= len(found) <= most:
      return room
  raise ValueError(
    f'sokoban: no room of {least} to {most} moves in {_DRAWS} draws of {rows} '
    f'x {columns} cells; ask for other moves or another size.'
  )


def _step(state: State, text: str) -> tuple[State, episode.Turn]:
  room, place = sokoban_rooms.read(state.room)
  if sokoban_rooms.solved(room, place):
    raise ValueError(f'{state.task.id}: the episode is over; reset first.')
  after, action = state._replace(turns=state.turns + 1), text.strip()
  if action not in ACTIONS:
    shown = f'error: say {", ".join(ACTIONS)}\n{state.room}'
    return after, episode.Turn(shown, process=0.0)
  there = sokoban_rooms.moved(room, place, action)
  seen = sokoban_rooms.write(room, there)
  over = sokoban_rooms.solved(room, there)
  gain = len(there.boxes & room.goals) - len(place.boxes & room.goals)
  turn = episode.Turn(seen, float(over), over, float(gain))
  return after._replace(room=seen), turn


def _noisy(fault: float, state: State, rng: np.random.Generator) -> str:
  return at_random(state, rng) if rng.random() < fault else oracle(state)
