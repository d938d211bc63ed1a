"""Gymnasium's tabular games as text: FrozenLake, Taxi and CliffWalking.

The rules are the package's own table of transitions, `env.P`, from which every
value follows exactly; arl adds the words. What is seen tells the state. The
reward is 1 for reaching the goal and 0 otherwise; the score of a step
(`process`) is what the package pays for it. `arl.envs.gymnasium_values` has the
exact values of both.

Needs `pip install 'arl[gymnasium]'`.
"""

import functools
import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from arl import episode
from arl.envs import base, extras, gymnasium_values

RULES = {
  'frozen_lake': 'Walk A to G over the ice; H is a hole.',
  'taxi': 'Drive the taxi T to the passenger, pick up, drive, drop off.',
  'cliff_walking': 'Walk A to G; C is a cliff.',
}
_CORNERS = ('red', 'green', 'yellow', 'blue')


class State(NamedTuple):
  """Where an episode stands.

  Attributes:
    task: the problem.
    place: the number of the package's state.
    turns: actions so far.
    stream: which sequence of chances it meets; see `gridworld.State`.
    over: whether the goal or a hole was reached.
  """

  task: episode.Task
  place: int
  turns: int = 0
  stream: int = 0
  over: bool = False


def make(
  *,
  game: str,
  slippery: bool = False,
  size: int = 4,
  fault: float = 0.5,
) -> base.Env:
  """A game on maps or from starts of its own; those of the splits differ.

  Without slip the oracle earns 1; with it, as much as `success` says of its
  policy at the start.

  Args:
    game: a name of gymnasium_values.GAMES.
    slippery: whether actions go aside by the package's chances.
    size: cells of a side of a frozen lake; the other games have one map.
    fault: how often the demonstrator acts at random.
  """
  if game not in gymnasium_values.GAMES:
    games = ', '.join(gymnasium_values.GAMES)
    raise ValueError(f'gymnasium_text: no game {game!r}; games: {games}.')
  if size < 3:
    raise ValueError(f'gymnasium_text: size is {size}; give 3 or more.')
  base.require_probabilities('gymnasium_text', fault=fault)
  extras.load('gymnasium', gymnasium_values.INSTALL)
  return base.Env(
    task=functools.partial(_task, game, slippery, size),
    reset=reset,
    step=_step,
    oracle=_oracle,
    noisy=functools.partial(_noisy, fault),
    scores_steps=True,
    anchor=render,
  )


def from_start(
  game: str, slippery: bool, start: int, rows: Sequence[str] = ()
) -> episode.Task:
  """The task from a given state, on a given map of a frozen lake (S, F, H, G).

  The package's own: start 0 of a lake, 36 of the cliff.

  Raises:
    ValueError: a lake without a map.
  """
  if (game == 'frozen_lake') != bool(rows):
    raise ValueError(
      f'gymnasium_text: {game} with the map {[*rows]}; a frozen lake has one, '
      'the other games have none.'
    )
  data = {'game': game, 'slippery': slippery, 'start': start, 'map': [*rows]}
  id = f'gymnasium_text/{game}/{slippery}/{start}/{"/".join(rows)}'
  actions = ', '.join(gymnasium_values.GAMES[game].actions)
  system = f'{RULES[game]} Say one of: {actions}.'
  task = episode.Task(id, '', data, system)
  return task._replace(prompt=render(reset(task)))


def reset(task: episode.Task) -> State:
  """The state that the task starts from."""
  return State(task, task.data['start'])


def at_random(state: State, rng: np.random.Generator) -> str:
  """An action without a thought."""
  actions = gymnasium_values.GAMES[state.task.data['game']].actions
  return actions[rng.integers(len(actions))]


def render(state: State) -> str:
  """What is seen: a grid with `A` for the agent, or where taxi and fare are."""
  name, _, rows = gymnasium_values.key(state.task)
  if name == 'taxi':
    return _render_taxi(state.place)
  if name == 'cliff_walking':
    rows = ('.' * 12, '.' * 12, '.' * 12, '.' + 'C' * 10 + 'G')
  cells = ''.join(rows).replace('S', '.').replace('F', '.')
  cells = cells[: state.place] + 'A' + cells[state.place + 1 :]
  width = len(rows[0])
  return '\n'.join(cells[i : i + width] for i in range(0, len(cells), width))


def _render_taxi(place: int) -> str:
  rest, goal = divmod(place, 4)
  rest, fare = divmod(rest, 5)
  row, column = divmod(rest, 5)
  walls = ('R: | : :G', ' : | : : ', ' : : : : ', ' | : | : ', 'Y| : |B: ')
  lines = [*walls]
  lines[row] = lines[row][: 2 * column] + 'T' + lines[row][2 * column + 1 :]
  where = 'in the taxi' if fare == 4 else f'at {_CORNERS[fare]}'
  said = f'taxi T at row {row} column {column}; passenger {where}; to'
  return '\n'.join([f'{said} {_CORNERS[goal]}', *lines])


def _task(
  game: str, slippery: bool, size: int, split: str, index: int
) -> episode.Task:
  shape = f'/size={size}' if game == 'frozen_lake' else ''
  family = f'gymnasium_text/{game}/slippery={slippery}{shape}'
  id = base.task_id(family, split, index)
  rng = random.Random(id)
  if game == 'frozen_lake':
    drawn = base.draw(split, functools.partial(_draw_lake, size, rng))
    rows = drawn.split('/')
    return from_start(game, slippery, 0, rows)._replace(id=id)
  starts = _starts(game)
  propose = lambda: str(starts[rng.randrange(len(starts))])
  start = int(base.draw(split, propose))
  return from_start(game, slippery, start)._replace(id=id)


def _draw_lake(size: int, rng: random.Random) -> str:
  lakes = extras.load(
    'gymnasium.envs.toy_text.frozen_lake', gymnasium_values.INSTALL
  )
  return '/'.join(lakes.generate_random_map(size, seed=rng.getrandbits(31)))


def _starts(game: str) -> Sequence[int]:
  """States that an episode may start from."""
  if game == 'cliff_walking':
    return range(37)  # all but the cliff and the goal behind it
  # A passenger waits at a corner that is not where he wants to go.
  return [s for s in range(500) if s // 4 % 5 not in (s % 4, 4)]


def _step(state: State, text: str) -> tuple[State, episode.Turn]:
  if state.over:
    raise ValueError(f'{state.task.id}: the episode is over; reset first.')
  name, slippery, rows = gymnasium_values.key(state.task)
  actions, action = gymnasium_values.GAMES[name].actions, text.strip()
  after = state._replace(turns=state.turns + 1)
  if action not in actions:
    shown = f'error: say {", ".join(actions)}\n{render(after)}'
    return after, episode.Turn(shown, process=0.0)
  outcomes = gymnasium_values.table(name, slippery, rows)[state.place][
    actions.index(action)
  ]
  seed = f'{state.task.id}/{state.stream}/{state.turns}'
  chances = [p for p, *_ in outcomes]
  _, place, reward, done = random.Random(seed).choices(outcomes, chances)[0]
  after = after._replace(place=int(place), over=bool(done))
  goal = done and place not in gymnasium_values.holes(rows)
  return after, episode.Turn(
    render(after), float(goal), bool(done), float(reward)
  )


def _oracle(state: State) -> str:
  actions = gymnasium_values.GAMES[state.task.data['game']].actions
  return actions[
    gymnasium_values.best(*gymnasium_values.key(state.task))[state.place]
  ]


def _noisy(fault: float, state: State, rng: np.random.Generator) -> str:
  return at_random(state, rng) if rng.random() < fault else _oracle(state)
