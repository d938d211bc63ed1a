"""What oracles and random policies earn in each environment, and how fast.

  python -m experiments.studies.environments [--quick]

Plays 1,000 tasks of each environment, half of them held out, by its oracle, by
actions of the right form drawn without a thought, and by its demonstrator, with
the turns that the oracle may need. Prints a JSON object a line and rewrites
experiments/results/environments.md. Speeds are those of one process: of the
oracle's episodes, its search included, and of stepping through the same actions
again.
"""

import functools
import itertools
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from arl import episode
from arl.envs import (
  arithmetic,
  base,
  coding,
  countdown,
  gridworld,
  keydoor,
  repair,
  retail,
  search,
  shop,
  sokoban,
  terminal,
  tools,
)
from arl.evaluate import intervals
from arl.sandbox import base as sandbox
from experiments.studies import adapters, runs, summary

Policy = Callable[[base.State, np.random.Generator], str]


class Case(NamedTuple):
  """An environment to be measured.

  Attributes:
    name: for the table.
    make: makes it, when its turn comes.
    at_random: a policy without a thought.
    turns: that its oracle may need.
    worth: what its oracle earns in the mean.
  """

  name: str
  make: Callable[[], base.Env]
  at_random: Policy
  turns: int
  worth: float = 1.0


def lake(name: str, slip: float) -> base.Env:
  """The grid on one of Gymnasium's maps; tasks differ in how they slip."""
  task = gridworld.lake(name, slip)
  return gridworld.make()._replace(
    task=lambda split, index: task._replace(
      id=base.task_id(task.id, split, index)
    )
  )


def any_number(state: base.State, rng: np.random.Generator) -> str:
  """An answer of three to six digits, or a sum, for `arithmetic`."""
  del state
  left, right = rng.integers(100, 1000, size=2)
  if rng.random() < 0.5:
    return str(rng.integers(100, 10 ** rng.integers(3, 7)))
  return f'CALC({left} {"+-*"[rng.integers(3)]} {right})'


CASES = (
  Case('arithmetic', arithmetic.make, any_number, 2),
  Case('tools', tools.make, tools.at_random, 4),
  # So small that a random walk often ends at the goal.
  Case('gridworld, 3 x 3', gridworld.make, gridworld.at_random, 9),
  Case(
    'gridworld, 6 x 6',
    functools.partial(gridworld.make, size=6, holes=12),
    gridworld.at_random,
    36,
  ),
  Case(
    'FrozenLake 4x4',
    functools.partial(lake, '4x4', 0.0),
    gridworld.at_random,
    16,
  ),
  Case(
    'FrozenLake 8x8',
    functools.partial(lake, '8x8', 0.0),
    gridworld.at_random,
    64,
  ),
  Case(
    'FrozenLake 4x4, slippery',
    functools.partial(lake, '4x4', 2 / 3),
    gridworld.at_random,
    1000,
    14 / 17,
  ),
  Case('keydoor, 2 doors', keydoor.make, keydoor.at_random, 10),
  Case(
    'keydoor, 8 doors',
    functools.partial(keydoor.make, length=8),
    keydoor.at_random,
    40,
  ),
  Case('sokoban, 4 x 4, 1 box', sokoban.make, sokoban.at_random, 8),
  Case(
    'sokoban, 6 x 6, 2 boxes',
    functools.partial(
      sokoban.make, rows=6, columns=6, walls=8, boxes=2, least=10, most=24
    ),
    sokoban.at_random,
    24,
  ),
  Case('countdown, 3 numbers', countdown.make, countdown.at_random, 2),
  Case(
    'countdown, 4 numbers',
    functools.partial(countdown.make, numbers=4),
    countdown.at_random,
    2,
  ),
  Case('search, letters', search.make, search.at_random, 3),
  Case(
    'search, articles, 3 hops',
    functools.partial(search.make, style='articles', max_hops=3, passages=3),
    search.at_random,
    4,
  ),
  Case('shop, 120 items', shop.make, shop.at_random, 5),
  Case(
    'shop, 1000 items',
    functools.partial(shop.make, products=1000, options=2, per_page=5),
    shop.at_random,
    6,
  ),
  Case('retail', retail.make, retail.at_random, 8),
  # What programs did is remembered, so the last speed is of looking it up.
  Case('coding', coding.make, coding.at_random, 2),
  Case('terminal', terminal.make, terminal.at_random, 3),
  Case('repair, 1 file', repair.make, repair.at_random, 3),
  Case(
    'repair, 3 files',
    functools.partial(repair.make, files=3),
    repair.at_random,
    3,
  ),
  *(Case(*case) for case in adapters.CASES),
)


class Measured(NamedTuple):
  """What was seen of an environment: earnings by task, and speeds a second."""

  earned: dict[str, list[float]]
  tasks: float
  episodes: float
  steps: float
  replayed: float
  longest: int


def measure(case: Case, count: int) -> Measured:
  """Plays so many tasks by each policy."""
  env, rng = case.make(), np.random.default_rng(0)
  tasks, making = _timed(
    lambda: [env.task(base.SPLITS[i % 2], i // 2) for i in range(count)]
  )
  play = lambda act: [base.play(env, t, act, case.turns) for t in tasks]
  oracle, playing = _timed(lambda: play(env.oracle))
  _, again = _timed(
    lambda: [_replay(env, *each) for each in zip(tasks, oracle)]
  )
  random = play(lambda state: case.at_random(state, rng))
  noisy = play(lambda state: env.noisy(state, rng))
  steps = sum(map(len, oracle))
  return Measured(
    {
      'oracle': _earned(oracle),
      'random': _earned(random),
      'demonstrator': _earned(noisy),
    },
    count / making,
    count / playing,
    steps / playing,
    steps / again,
    max(_characters(*each) for each in zip(tasks, oracle)),
  )


def _timed(do):
  """What a function gives, and the seconds that it took."""
  began = time.perf_counter()
  made = do()
  return made, time.perf_counter() - began


def _replay(
  env: base.Env, task: episode.Task, exchanges: Sequence[episode.Exchange]
) -> None:
  state = env.reset(task)
  for exchange in exchanges:
    state, _ = env.step(state, exchange.action)


def _earned(played: Sequence[Sequence[episode.Exchange]]) -> list[float]:
  return [sum(e.turn.reward for e in exchanges) for exchanges in played]


def _characters(
  task: episode.Task, exchanges: Sequence[episode.Exchange]
) -> int:
  """Of the prompt, the actions and what was seen, an end of each included."""
  said = itertools.chain.from_iterable(
    (e.action, e.turn.text) for e in exchanges
  )
  return sum(len(text) + 1 for text in (task.prompt, *said))


def _tell(case: Case, seen: Measured) -> list[str]:
  """Prints the lines of an environment; its row of the table."""
  row = [case.name, str(case.turns), str(seen.longest)]
  aims = {
    'oracle': f'{case.worth:.4g}', 'random': '<= 0.05', 'demonstrator': '',
  }  # fmt: skip
  for who, earned in seen.earned.items():
    low, high = intervals.bootstrap_mean(earned, 0, draws=1000)
    interval = [round(low, 4), round(high, 4)]
    mean = float(np.mean(earned))
    runs.line(
      f'environments/{case.name}/{who}',
      mean,
      'reward',
      aims[who],
      [0],
      interval,
    )
    row.append(runs.percent(mean, interval if low < high else None))
  for name in ('tasks', 'episodes', 'steps', 'replayed'):
    speed = getattr(seen, name)
    runs.line(
      f'environments/{case.name}/{name}', speed, 'per second', '', [0], None
    )
    row.append(f'{speed:,.0f}')
  return row


def main(argv: list[str]) -> None:
  del argv
  count = 50 if runs.quick() else 1000
  body = []
  for case in CASES:
    try:
      seen = measure(case, count)
    except (sandbox.Refused, ImportError) as error:
      print(f'{case.name}: NOT MEASURED: {error}', file=sys.stderr)
      continue
    body.append(_tell(case, seen))
  if not runs.quick():
    header = (
      'environment', 'turns', 'characters at most', 'oracle', 'at random',
      'demonstrator', 'tasks/s', "oracle's episodes/s", 'steps/s',
      'steps/s alone',
    )  # fmt: skip
    runs.write_table(runs.RESULTS / 'environments.md', header, body)
    summary.write()


if __name__ == '__main__':
  runs.start(main)
