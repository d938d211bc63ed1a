"""MiniGrid's worlds as text: the whole grid, the mission and what is carried.

A cell is two characters, as the package prints it: `WG` a grey wall, `KY` a
yellow key, `LY` a locked and `DY` a closed yellow door, `__` an open one, `A.`
a ball, `B.` a box, `GG` the goal, `VR` lava, `>>` the agent and where it looks.
Unlike the package's agents, the policy sees all of it. The reward is 1 for a
mission accomplished, whatever time it took, and 0 otherwise.

Needs `pip install 'arl[gymnasium]'`.
"""

import collections
import functools
import random
from typing import Any, NamedTuple

import numpy as np

from arl import episode
from arl.envs import base, extras, gymnasium_values, replays

# In the package's order.
ACTIONS = ('left', 'right', 'forward', 'pickup', 'drop', 'toggle', 'done')
SYSTEM = (
  'You see a grid: WG is a wall, two signs of > V < ^ are you and where you '
  'look, and other cells are a letter for what lies there (K key, D door, L '
  'locked door, A ball, B box, G goal, V lava) and one for its color. Say one '
  f'of: {", ".join(ACTIONS)}.'
)
NODES = 50_000  # states that a search looks at before it gives up
_TRIES = 1000


class State(NamedTuple):
  """Where an episode stands.

  Attributes:
    task: the problem.
    actions: those that the world took, in order.
    shown: what is seen.
    turns: actions so far, malformed ones included.
    over: whether the world ended it.
  """

  task: episode.Task
  actions: tuple[str, ...]
  shown: str
  turns: int = 0
  over: bool = False


class World(NamedTuple):
  """A live world.

  Attributes:
    env: the package's environment.
    numbers: the number of each thing in it, by identity.
  """

  env: Any
  numbers: dict[int, int]


def make(
  *, game: str = 'MiniGrid-DoorKey-6x6-v0', fault: float = 0.3
) -> base.Env:
  """The worlds of a game; none of one split occurs in the other.

  The oracle searches for the shortest plan, with all that is hidden in boxes
  known to it, and raises a ValueError where that takes more than NODES states.

  Args:
    game: an id of the package, MiniGrid-...
    fault: how often the demonstrator acts at random.
  """
  base.require_probabilities('minigrid_text', fault=fault)
  if not game.startswith('MiniGrid-') or 'Dynamic' in game:
    raise ValueError(
      f'minigrid_text: {game!r} is no world that stands still; give an id that '
      'starts with MiniGrid- and has no moving obstacles.'
    )
  _packages()
  step = replays.stepper(
    lambda task: _start(task.data['game'], task.data['seed']), _act
  )
  return base.Env(
    task=functools.partial(_task, game),
    reset=lambda task: State(task, (), task.prompt),
    step=functools.partial(_step, step),
    oracle=oracle,
    noisy=functools.partial(_noisy, fault),
    anchor=lambda state: state.shown,
  )


def at_random(state: State, rng: np.random.Generator) -> str:
  """An action without a thought."""
  del state
  return ACTIONS[rng.integers(len(ACTIONS))]


def oracle(state: State) -> str:
  """The first action of a shortest plan.

  Raises:
    ValueError: none was found.
  """
  data = state.task.data
  world, guide = _start(data['game'], data['seed']), _guide(*data.values())
  world.env.gen_obs = lambda: None  # most of a step's time
  for action in state.actions:
    world.env.step(ACTIONS.index(action))
  if _sign(world) not in guide:
    guide.update(_search(world, state.task.id))
  return guide[_sign(world)]


def _packages() -> Any:
  extras.load('minigrid', gymnasium_values.INSTALL)
  return extras.load('gymnasium', gymnasium_values.INSTALL)


def _task(game: str, split: str, index: int) -> episode.Task:
  id = base.task_id(f'minigrid_text/{game}', split, index)
  rng = random.Random(id)
  for _ in range(_TRIES):
    seed = rng.getrandbits(31)
    prompt = _render(_start(game, seed).env)
    if base.split_of(prompt) == split:
      return episode.Task(id, prompt, {'game': game, 'seed': seed}, SYSTEM)
  raise ValueError(
    f'minigrid_text: {game} has too few worlds for the split {split!r}; take '
    'the other split, or a larger game.'
  )


def _start(game: str, seed: int) -> World:
  env = _packages().make(game, disable_env_checker=True).unwrapped
  env.reset(seed=seed)
  things = [*env.grid.grid]
  for thing in things:  # grows: boxes hold things
    if getattr(thing, 'contains', None) is not None:
      things.append(thing.contains)
  numbers = {id(thing): i for i, thing in enumerate(things)}
  return World(env, {**numbers, id(None): -1})


def _render(env: Any) -> str:
  held = env.carrying
  carried = f'\ncarrying: {held.color} {held.type}' if held else ''
  return f'{env.mission}\n{env.pprint_grid()}{carried}'


def _act(world: World, action: str) -> tuple[str, bool, bool]:
  """What is seen, whether that was the mission, whether it is over."""
  _, reward, ended, cut, _ = world.env.step(ACTIONS.index(action))
  return _render(world.env), reward > 0, bool(ended or cut)


def _step(step, state: State, text: str) -> tuple[State, episode.Turn]:
  if state.over:
    raise ValueError(f'{state.task.id}: the episode is over; reset first.')
  after, action = state._replace(turns=state.turns + 1), text.strip()
  if action not in ACTIONS:
    shown = f'error: say {", ".join(ACTIONS)}\n{state.shown}'
    return after, episode.Turn(shown)
  shown, done, over = step(state.task, state.actions, action)
  actions = (*state.actions, action)
  after = after._replace(actions=actions, shown=shown, over=over)
  return after, episode.Turn(shown, float(done), over)


def _noisy(fault: float, state: State, rng: np.random.Generator) -> str:
  return at_random(state, rng) if rng.random() < fault else oracle(state)


@functools.lru_cache(maxsize=1024)
def _guide(game: str, seed: int) -> dict[Any, str]:
  """The best action by sign, as far as searches have come."""
  del game, seed
  return {}


def _sign(world: World) -> Any:
  """What tells the states of a world apart, but for the time."""
  env, numbers = world.env, world.numbers
  x, y = env.agent_pos
  things = tuple(numbers[id(thing)] for thing in env.grid.grid)
  doors = tuple(
    (thing.is_open, thing.is_locked)
    for thing in env.grid.grid
    if thing is not None and thing.type == 'door'
  )
  return (
    int(x), int(y), int(env.agent_dir), numbers[id(env.carrying)], things, doors
  )  # fmt: skip


def _freeze(env: Any) -> tuple:
  """The state of a world, to be given back to the same object."""
  doors = [t for t in env.grid.grid if t is not None and t.type == 'door']
  return (
    env.agent_pos,
    env.agent_dir,
    env.carrying,
    [*env.grid.grid],
    [(door, door.is_open, door.is_locked) for door in doors],
  )


def _thaw(env: Any, frozen: tuple) -> None:
  env.agent_pos, env.agent_dir, env.carrying, things, doors = frozen
  env.grid.grid, env.step_count = [*things], 0
  for door, is_open, is_locked in doors:
    door.is_open, door.is_locked = is_open, is_locked
  # Where things lie is kept twice.
  for cell, thing in enumerate(things):
    if thing is not None:
      thing.cur_pos = (cell % env.width, cell // env.width)
  if env.carrying is not None:
    env.carrying.cur_pos = np.array([-1, -1])


def _search(world: World, id: str) -> dict[Any, str]:
  """The best action by sign, from where the world stands to the mission's end.

  Breadth first. The world is left where it stood.
  """
  env, start = world.env, _freeze(world.env)
  first = _sign(world)
  came: dict[Any, Any] = {first: None}
  queue = collections.deque([(first, start)])
  while queue and len(came) <= NODES:
    sign, frozen = queue.popleft()
    for number, action in enumerate(ACTIONS):
      _thaw(env, frozen)
      _, reward, ended, _, _ = env.step(number)
      if reward > 0:
        _thaw(env, start)
        return _back(came, sign, action)
      after = _sign(world)
      if not ended and after not in came:
        came[after] = sign, action
        queue.append((after, _freeze(env)))
  raise ValueError(
    f'{id}: found no plan in {len(came)} states; there is no oracle here.'
  )


def _back(came: dict[Any, Any], sign: Any, action: str) -> dict[Any, str]:
  """The way to the last action, by sign."""
  way = {sign: action}
  while came[sign] is not None:
    sign, action = came[sign]
    way[sign] = action
  return way
