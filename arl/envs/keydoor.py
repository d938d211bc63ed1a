"""A chain of locked doors whose keys lie in side rooms, as short text.

`length` halls follow one another, each behind a locked door, and the goal is
the last room. Off every hall lie side rooms, one of which holds the key to its
door; the others are distractors. Rooms have letters, drawn anew for each task.
What is seen is `2 c: a b d!`: two doors are still locked, this is room c, it
leads to a, b and d, and d is locked. ` key` at the end says that a key lies
here, ` held` that one is held. Actions are `take`, `open d` and `go d`. Only
the goal earns a reward, 1.

What is seen tells the state, but not the map: a room's contents are known once
it was entered.
"""

import collections
import functools
import random
import string
from typing import NamedTuple

import numpy as np

from arl import episode
from arl.envs import base

RULES = (
  'Find the goal room. You see: locked doors left, your room, its exits (! is '
  'locked), "key" if one lies here, "held" if you hold one. Say one of: take, '
  'open x, go x.'
)


class State(NamedTuple):
  """Where an episode stands; fields 1 to 3 are the place that it takes.

  Attributes:
    task: the problem.
    room: where the agent is.
    opened: how many doors are open; a key is gone once it has opened one.
    held: whether a key is held.
    turns: actions so far.
  """

  task: episode.Task
  room: str
  opened: int = 0
  held: bool = False
  turns: int = 0


def make(
  *, length: int = 2, sides: int = 2, fault: float = 0.25, system: str = ''
) -> base.Env:
  """The chain environment; the oracle needs 5 * length turns.

  A step's score is 1 for taking a key, opening a door and reaching the goal,
  and 0 otherwise. No map of one split occurs in the other.

  Args:
    length: locked doors.
    sides: side rooms of each hall but the goal.
    fault: how often the demonstrator acts at random.
    system: a system message, such as RULES.
  """
  if length < 1 or sides < 1:
    raise ValueError(
      f'keydoor: length {length} and sides {sides}; give 1 or more of each.'
    )
  rooms = length * (sides + 1) + 1
  if rooms > len(string.ascii_letters):
    raise ValueError(
      f'keydoor: {rooms} rooms, and {len(string.ascii_letters)} letters; give '
      'a smaller length or fewer sides.'
    )
  base.require_probabilities('keydoor', fault=fault)
  return base.Env(
    task=functools.partial(_task, length, sides, system),
    reset=_reset,
    step=_step,
    oracle=oracle,
    noisy=functools.partial(_noisy, fault),
    scores_steps=True,
    anchor=render,
    vary=functools.partial(_vary, sides, system),
  )


def at_random(state: State, rng: np.random.Generator) -> str:
  """A well-formed action that names any room, without a thought."""
  data = state.task.data
  rooms = data['halls'] + ''.join(data['sides'])
  verb = ('take', 'open', 'go')[rng.integers(3)]
  return verb if verb == 'take' else f'{verb} {rooms[rng.integers(len(rooms))]}'


def render(state: State) -> str:
  """What is seen from a state."""
  shown = []
  for room in sorted(_exits(state.task, state.room)):
    shown.append(room + '!' * _locked(state, room))
  locked = len(state.task.data['sides']) - state.opened
  here, held = ' key' * _key_here(state), ' held' * state.held
  return f'{locked} {state.room}: {" ".join(shown)}{here}{held}'


def turns_left(state: State) -> int:
  """The fewest actions from a state to the goal; 0 there."""
  data = state.task.data
  distances = _distances(data['halls'], tuple(data['sides']), data['keys'])
  return distances[state[1:4]]


def oracle(state: State) -> str:
  """The first of the actions that lead nearest to the goal."""
  ahead = {a: turns_left(_after(state, a)) for a in _legal(state)}
  return min(ahead, key=lambda action: ahead[action])


def _task(
  length: int, sides: int, system: str, split: str, index: int
) -> episode.Task:
  id = base.task_id(f'keydoor/length={length}/sides={sides}', split, index)
  return _drawn(length, sides, system, split, id)


def _vary(
  sides: int, system: str, task: episode.Task, rng: np.random.Generator
) -> episode.Task:
  """Another map, of as many doors or of fewer."""
  id, split = base.varied_id(task.id, rng)
  length = int(rng.integers(1, len(task.data['sides']) + 1))
  return _drawn(length, sides, system, split, id)


def _drawn(
  length: int, sides: int, system: str, split: str, id: str
) -> episode.Task:
  rng = random.Random(id)
  names = string.ascii_lowercase
  if length * (sides + 1) + 1 > len(names):
    names = string.ascii_letters

  def propose() -> str:
    """The halls, then the side rooms hall by hall, then the keys' rooms."""
    rooms = ''.join(rng.sample(names, length * (sides + 1) + 1))
    keys = range(length + 1, len(rooms), sides)
    return rooms + ''.join(rooms[at + rng.randrange(sides)] for at in keys)

  drawn = base.draw(split, propose)
  halls, others = drawn[: length + 1], drawn[length + 1 : -length]
  parts = [others[i : i + sides] for i in range(0, len(others), sides)]
  data = {'halls': halls, 'sides': parts, 'keys': drawn[-length:]}
  task = episode.Task(id, '', data, system)
  return task._replace(prompt=f'find {halls[-1]}\n{render(_reset(task))}')


def _reset(task: episode.Task) -> State:
  return State(task, task.data['halls'][0])


def _exits(task: episode.Task, room: str) -> str:
  """The rooms that a room leads to."""
  halls, sides = task.data['halls'], task.data['sides']
  at = halls.find(room)
  if at < 0:
    return next(halls[i] for i, part in enumerate(sides) if room in part)
  beyond = halls[at + 1] + sides[at] if at < len(sides) else ''
  return (halls[at - 1] if at else '') + beyond


def _locked(state: State, room: str) -> bool:
  """Whether the door to a room is locked."""
  return state.task.data['halls'].find(room) > state.opened


def _key_here(state: State) -> bool:
  """Whether a key lies in the room: that of a door not opened, not held."""
  taken = state.opened + state.held
  return state.room in state.task.data['keys'][taken:]


def _legal(state: State) -> list[str]:
  """The actions that change something."""
  actions = ['take'] if _key_here(state) else []
  for room in _exits(state.task, state.room):
    if not _locked(state, room):
      actions.append(f'go {room}')
    elif state.held:
      actions.append(f'open {room}')
  return actions


def _after(state: State, action: str) -> State:
  """The state after one of the legal actions."""
  verb, _, room = action.partition(' ')
  match verb:
    case 'take':
      return state._replace(held=True)
    case 'open':
      return state._replace(opened=state.opened + 1, held=False)
    case _:
      return state._replace(room=room)


@functools.lru_cache(maxsize=1024)
def _distances(
  halls: str, sides: tuple[str, ...], keys: str
) -> dict[tuple[str, int, bool], int]:
  """By (room, opened, held): the fewest actions to the goal."""
  data = {'halls': halls, 'sides': sides, 'keys': keys}
  start = _reset(episode.Task('', '', data))
  before = collections.defaultdict(list)
  seen, queue = {start[1:4]}, [start]
  for state in queue:
    for after in (_after(state, action) for action in _legal(state)):
      before[after[1:4]].append(state[1:4])
      if after[1:4] not in seen:
        seen.add(after[1:4])
        queue.append(after)
  nearest = {place: 0 for place in seen if place[0] == halls[-1]}
  places = list(nearest)
  for place in places:
    for earlier in before[place]:
      if earlier not in nearest:
        nearest[earlier] = nearest[place] + 1
        places.append(earlier)
  return nearest


def _step(state: State, text: str) -> tuple[State, episode.Turn]:
  goal = state.task.data['halls'][-1]
  if state.room == goal:
    raise ValueError(f'{state.task.id}: the episode is over; reset first.')
  action, after = text.strip(), state._replace(turns=state.turns + 1)
  if action not in _legal(state):
    return after, episode.Turn(f'error: {_fault(state, action)}', process=0.0)
  after = _after(after, action)
  over = after.room == goal
  progress = float(over or not action.startswith('go '))
  return after, episode.Turn(render(after), float(over), over, progress)


def _fault(state: State, action: str) -> str:
  """What is wrong with an action that changes nothing."""
  verb, _, room = action.partition(' ')
  if action == 'take':
    return 'no key here'
  if verb not in ('go', 'open') or len(room) != 1:
    return 'say take, open room or go room'
  if not room.isascii() or not room.isalpha():
    return 'rooms are letters'
  if room not in _exits(state.task, state.room):
    return f'no door to {room} here'
  if verb == 'go':
    return f'{room} is locked'
  return 'no key held' if _locked(state, room) else f'{room} is open'


def _noisy(fault: float, state: State, rng: np.random.Generator) -> str:
  """Mistakes are actions that are possible, or well-formed at least."""
  if rng.random() >= fault:
    return oracle(state)
  if rng.random() < 0.2:
    return at_random(state, rng)
  legal = _legal(state)
  return legal[rng.integers(len(legal))]
