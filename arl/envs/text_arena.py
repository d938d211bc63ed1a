"""TextArena's games for one player that need nothing from the network.

Words and rules are the package's, down to the second invalid move in a row,
which ends a game. The reward is 1 for a game won and 0 otherwise; the score of
the last step is what the package pays, which may be a part, in [0, 1]. An
invalid move is an observation that begins with `error: `.

Needs `pip install 'arl[textarena]'`.
"""

import functools
import random
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from arl import episode
from arl.envs import base, extras, replays, text_arena_oracles

INSTALL = "pip install 'arl[textarena]'"
# What a move at random is made of, by game: one of each, in brackets.
GAMES: Mapping[str, Sequence[Sequence[Any]]] = {
  '2048': [('up', 'down', 'left', 'right')],
  'Bandit': [('red', 'blue', 'green', 'yellow', 'purple')],
  'Countdown': [range(6), range(6), '+-*/'],
  'FifteenPuzzle': [('up', 'down', 'left', 'right')],
  'FrozenLake': [('up', 'down', 'left', 'right')],
  'GuessTheNumber': [range(1, 21)],
  'LightsOut': [range(5), range(5)],
  'LogicPuzzle': [('Alice', 'Bob'), ('park', 'library'), 'XO'],
  'Mastermind': [range(1, 7)] * 4,
  'Minesweeper': [range(8), range(8)],
  'PegJump': [range(1, 16), range(1, 16)],
  'RushHour': [[f'{car}{way}' for car in 'ABCDX' for way in '+-']],
  'Secretary': [('accept', 'continue')],
  'Sudoku': [range(1, 10)] * 3,
  'TowerOfHanoi': ['ABC', 'ABC'],
}
# The package draws from Python's one generator, here lent to a game at a time.
_LOCK = threading.Lock()


class State(NamedTuple):
  """Where an episode stands.

  Attributes:
    task: the problem.
    shown: the last observation.
    actions: so far.
    turns: their number.
    over: whether the game has ended.
  """

  task: episode.Task
  shown: str
  actions: tuple[str, ...] = ()
  turns: int = 0
  over: bool = False


def make(*, game: str = 'TowerOfHanoi', fault: float = 0.3) -> base.Env:
  """Games of one kind; the seeds of the splits differ.

  Args:
    game: a name of GAMES. Only those of `text_arena_oracles.ORACLES` have an
      oracle.
    fault: how often the demonstrator moves at random; without an oracle, it
      does always.
  """
  if game not in GAMES:
    raise ValueError(
      f'text_arena: no game {game!r}; games: {", ".join(sorted(GAMES))}.'
    )
  base.require_probabilities('text_arena', fault=fault)
  extras.load('textarena', INSTALL)
  step = replays.stepper(_start, _act)
  return base.Env(
    task=functools.partial(_task, game),
    reset=lambda task: State(task, task.prompt),
    step=functools.partial(_step, step),
    oracle=oracle,
    noisy=functools.partial(_noisy, fault),
    scores_steps=True,
  )


def oracle(state: State) -> str:
  """The right move, where there is a function for it.

  Raises:
    NotImplementedError: there is none.
  """
  game = state.task.data['game']
  if game not in text_arena_oracles.ORACLES:
    raise NotImplementedError(
      f'text_arena: {game} has no oracle; those that have: '
      f'{", ".join(sorted(text_arena_oracles.ORACLES))}.'
    )
  live = _start(state.task)
  for action in state.actions:
    _act(live, action)
  return text_arena_oracles.ORACLES[game](live.game)


def at_random(state: State, rng: np.random.Generator) -> str:
  """A move of the right form, most of the time, without a thought."""
  parts: Any = GAMES[state.task.data['game']]
  words = [str(part[rng.integers(len(part))]) for part in parts]
  return f'[{" ".join(words)}]'


def _task(game: str, split: str, index: int) -> episode.Task:
  id = base.task_id(f'text_arena/{game}', split, index)
  rng = random.Random(id)
  seed = int(base.draw(split, lambda: str(rng.getrandbits(31))))
  task = episode.Task(id, '', {'game': game, 'seed': seed})
  return task._replace(prompt=_start(task).shown)


def _start(task: episode.Task) -> types.SimpleNamespace:
  """A live game, and the state of its generator."""
  arena = extras.load('textarena', INSTALL)
  live = types.SimpleNamespace(chance=random.Random(0).getstate())

  def begin():
    live.game = arena.make(f'{task.data["game"]}-v0-raw')
    live.game.reset(num_players=1, seed=task.data['seed'])

  _with_chance(live, begin)
  live.shown = _seen(live.game)
  return live


def _with_chance(live: types.SimpleNamespace, work: Callable[[], Any]) -> Any:
  """Does something with the game's own randomness."""
  with _LOCK:
    ours = random.getstate()
    random.setstate(live.chance)
    try:
      return work()
    finally:
      live.chance = random.getstate()
      random.setstate(ours)


def _seen(game: Any) -> str:
  """What the game told since it was last asked, without the player's words."""
  told = game.get_observation()[1]
  return '\n'.join(
    next(part for part in message if isinstance(part, str)).strip('\n')
    for message in told
    if not any(getattr(p, 'name', '') == 'PLAYER_ACTION' for p in message)
  )


def _act(live: types.SimpleNamespace, action: str) -> tuple[str, bool, float]:
  """What is seen, whether it is over, and what the package pays."""
  over, _ = _with_chance(live, lambda: live.game.step(action))
  if not over:
    invalid = 'error: ' * bool(live.game.state.error_count)
    return invalid + _seen(live.game), False, 0.0
  rewards, facts = live.game.close()
  paid = 0.0 if facts[0]['invalid_move'] else float(rewards[0])
  return '', True, min(max(paid, 0.0), 1.0)


def _step(step: Callable, state: State, text: str):
  if state.over:
    raise ValueError(f'{state.task.id}: the episode is over; reset first.')
  shown, over, paid = step(state.task, state.actions, text)
  after = state._replace(
    shown=shown,
    actions=(*state.actions, text),
    turns=state.turns + 1,
    over=over,
  )
  return after, episode.Turn(shown, float(paid >= 1), over, paid)


def _noisy(fault: float, state: State, rng: np.random.Generator) -> str:
  known = state.task.data['game'] in text_arena_oracles.ORACLES
  if not known or rng.random() < fault:
    return at_random(state, rng)
  return oracle(state)
