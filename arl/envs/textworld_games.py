"""TextWorld's generated games: rooms, doors, things, and a quest.

The package makes the game and keeps its state, says what can be done and knows
the way to win. The words are ours, from the facts that a player can see: its
own prose would have to be compiled for each game. Things in closed containers
are not shown. The reward is 1 for a quest fulfilled and 0 otherwise; a step's
score is 1 if it shortened the way to win, and -1 if it made it longer.

Needs `pip install 'arl[textworld]'`.
"""

import collections
import functools
import random
import threading
import types
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from arl import episode
from arl.envs import base, extras, replays

INSTALL = "pip install 'arl[textworld]'"
SYSTEM = 'You play a text adventure. Say one of the commands that you can use.'
_IDLE = ('look', 'inventory', 'examine ')  # all is shown anyway
_LOCK = threading.Lock()


class View(NamedTuple):
  """A game as it stands.

  Attributes:
    shown: what the player sees.
    commands: what can be done.
    way: the commands that win; None where nothing does any more.
    won: whether the quest is fulfilled.
    over: whether the game is won or lost.
  """

  shown: str
  commands: tuple[str, ...]
  way: tuple[str, ...] | None
  won: bool
  over: bool


class State(NamedTuple):
  """Where an episode stands.

  Attributes:
    task: the problem.
    view: the game.
    actions: the commands that were taken.
    turns: actions so far, malformed ones included.
  """

  task: episode.Task
  view: View
  actions: tuple[str, ...] = ()
  turns: int = 0


def make(
  *, rooms: int = 3, objects: int = 6, quest: int = 4, fault: float = 0.3
) -> base.Env:
  """Games of one size; the seeds of the splits differ.

  Args:
    rooms: of the world, 2 or more.
    objects: in it, 2 or more.
    quest: commands that the shortest way to win takes.
    fault: how often the demonstrator does anything that can be done.
  """
  for name, value, least in (
    ('rooms', rooms, 2), ('objects', objects, 2), ('quest', quest, 1),
  ):  # fmt: skip
    if value < least:
      raise ValueError(
        f'textworld_games: {name} is {value}; give {least} or more.'
      )
  base.require_probabilities('textworld_games', fault=fault)
  _knowledge()
  step = replays.stepper(_start, _act)
  return base.Env(
    task=functools.partial(_task, rooms, objects, quest),
    reset=lambda task: State(task, _view(_start(task))),
    step=functools.partial(_step, step),
    oracle=oracle,
    noisy=functools.partial(_noisy, fault),
    scores_steps=True,
    anchor=lambda state: state.view.shown,
  )


def oracle(state: State) -> str:
  """The first command of the way that the package knows.

  Raises:
    ValueError: the game cannot be won any more.
  """
  if not state.view.way:
    raise ValueError(
      f'{state.task.id}: the quest cannot be fulfilled any more; there is no '
      'oracle here.'
    )
  return state.view.way[0]


def at_random(state: State, rng: np.random.Generator) -> str:
  """Anything that can be done."""
  return state.view.commands[rng.integers(len(state.view.commands))]


def _task(
  rooms: int, objects: int, quest: int, split: str, index: int
) -> episode.Task:
  id = base.task_id(
    f'textworld_games/rooms={rooms}/objects={objects}/quest={quest}',
    split,
    index,
  )
  rng = random.Random(id)
  seed = base.draw(split, lambda: str(rng.getrandbits(31)))
  data = {
    'rooms': rooms, 'objects': objects, 'quest': quest, 'seed': int(seed)
  }  # fmt: skip
  task = episode.Task(id, '', data, SYSTEM)
  live = _start(task)
  goal = ' '.join(live.game.objective.split())
  return task._replace(prompt=f'{goal}\n{_view(live).shown}')


@functools.cache
def _knowledge() -> Any:
  """The package's rules of worlds; reading them takes seconds."""
  extras.load('textworld', INSTALL)
  data = extras.load('textworld.generator.data', INSTALL)
  return data.KnowledgeBase.default()


@functools.lru_cache(maxsize=512)
def _game(rooms: int, objects: int, quest: int, seed: int) -> tuple[Any, Any]:
  """The game of a seed, and what spells its actions."""
  textworld = extras.load('textworld', INSTALL)
  inform7 = extras.load('textworld.generator.inform7', INSTALL)
  options = textworld.GameOptions()
  options.nb_rooms, options.nb_objects = rooms, objects
  options.quest_length, options.seeds = quest, seed
  with _LOCK:
    options.kb = _knowledge()
    game = textworld.generator.make_game(options)
  return game, inform7.Inform7Game(game)


def _start(task: episode.Task) -> types.SimpleNamespace:
  """A live game: the package's, and how far it has come."""
  games = extras.load('textworld.generator.game', INSTALL)
  game, inform = _game(**task.data)
  progress = games.GameProgression(game, track_quests=True)
  return types.SimpleNamespace(game=game, inform=inform, progress=progress)


def _commands(live: types.SimpleNamespace) -> dict[str, Any]:
  """What can be done by its command; of equal commands, the first."""
  actions = live.progress.valid_actions
  spelled = live.inform.gen_commands_from_actions(actions)
  found = dict(zip(reversed(spelled), reversed(actions)))
  return {c: found[c] for c in sorted(found) if not c.startswith(_IDLE)}


def _view(live: types.SimpleNamespace) -> View:
  progress, way = live.progress, live.progress.winning_policy
  commands = tuple(_commands(live))
  if way is not None:
    way = tuple(live.inform.gen_commands_from_actions(way))
  shown = _render(live.game, progress.state.facts)
  shown = f'{shown}\nYou can: {"; ".join(commands)}'
  won = bool(progress.completed)
  return View(shown, commands, way, won, won or bool(progress.failed))


def _act(live: types.SimpleNamespace, command: str) -> View:
  live.progress.update(_commands(live)[command])
  return _view(live)


def _render(game: Any, facts: Any) -> str:
  """The room, what is in it, its exits, and what is carried."""
  by_name = collections.defaultdict(list)
  for fact in facts:
    by_name[fact.name].append(tuple(a.name for a in fact.arguments))
  holds = collections.defaultdict(list)
  for thing, place in by_name['at'] + by_name['in'] + by_name['on']:
    holds[place].append(thing)
  (room,) = (place for thing, place in by_name['at'] if thing == 'P')
  stands = {
    args[0]: word
    for word in ('open', 'closed', 'locked')
    for args in by_name[word]
  }
  tell = functools.partial(_tell, game, holds, stands)
  here = sorted(tell(thing) for thing in holds[room] if thing != 'P')
  doors = {(a, c): tell(door) for a, door, c in by_name['link']}
  exits = sorted(
    relation.removesuffix('_of') + _behind(doors.get((room, there)))
    for relation, pairs in by_name.items()
    if relation.endswith('_of')
    for there, where in pairs
    if where == room
  )
  held = sorted(tell(thing) for thing in holds['I'])
  return (
    f'You are in the {game.infos[room].name}. Here: {_listed(here)}. Exits: '
    f'{_listed(exits)}. You have: {_listed(held)}.'
  )


def _tell(
  game: Any,
  holds: Mapping[str, list[str]],
  stands: Mapping[str, str],
  thing: str,
) -> str:
  """A thing, whether it is open, and what can be seen in or on it."""
  state, inside = stands.get(thing), []
  if state in (None, 'open'):
    inside = sorted(game.infos[held].name for held in holds[thing])
  words = ([state] if state else []) + (
    [f'with {", ".join(inside)}'] if inside else []
  )
  return game.infos[thing].name + (f' ({", ".join(words)})' if words else '')


def _behind(door: str | None) -> str:
  return f' behind {door}' if door else ''


def _listed(words: list[str]) -> str:
  return ', '.join(words) or 'nothing'


def _step(step, state: State, text: str) -> tuple[State, episode.Turn]:
  view, command = state.view, text.strip()
  if view.over:
    raise ValueError(f'{state.task.id}: the episode is over; reset first.')
  after = state._replace(turns=state.turns + 1)
  if command not in view.commands:
    return after, episode.Turn(
      f'error: you cannot do that\n{view.shown}', process=0.0
    )
  seen = step(state.task, state.actions, command)
  after = after._replace(view=seen, actions=(*state.actions, command))
  return after, episode.Turn(
    seen.shown, float(seen.won), seen.over, _nearer(view, seen)
  )


def _nearer(before: View, after: View) -> float:
  """1 if the way to win is shorter than before, -1 if it is longer."""
  if after.won:
    return 1.0
  if before.way is None or after.way is None:
    return -float(before.way is not None)
  return float(np.sign(len(before.way) - len(after.way)))


def _noisy(fault: float, state: State, rng: np.random.Generator) -> str:
  if rng.random() < fault or not state.view.way:
    return at_random(state, rng)
  return oracle(state)
