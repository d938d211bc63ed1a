"""Which tasks a step works on: pure functions over a state that is JSON.

The state is in a run's checkpoints, so a run that was resumed chooses the tasks
that it would have chosen. A module of this package that makes a `Curriculum`
can be named by config.prompts.choose.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from arl import episode
from arl.envs import base
from arl.prompts import source

State = Mapping[str, Any]  # as JSON has it
Facts = dict[str, float]


class Pool(NamedTuple):
  """What tasks there are to choose from, and how many at a time.

  Attributes:
    env: whose training tasks 0 to size - 1 they are.
    size: how many there are.
    batch: how many are chosen at a time.
    seed: of what is chosen by chance.
  """

  env: base.Env
  size: int
  batch: int
  seed: int

  def task(self, index: int) -> episode.Task:
    return self.env.task(base.TRAIN, index)


class Told(NamedTuple):
  """What a run says of its policy after a step.

  Attributes:
    change: how far the updates of the step moved the policy: mean |change of
      log-prob| of a token; 0 where the curriculum does not ask for it.
    values: tasks -> what the critic expects of each at its prompt; None where
      the run has no critic of one number.
  """

  change: float = 0.0
  values: Callable[[Sequence[episode.Task]], Sequence[float]] | None = None


class Curriculum(NamedTuple):
  """How tasks are chosen.

  Attributes:
    begin: () -> the state before the first step.
    choose: (state, step) -> (tasks, state). May be asked again in a step; what
      it gives then are other tasks. Fewer than a batch, or none, once there are
      no others.
    observe: (state, groups, Told) -> (state, facts). Called once a step, after
      its updates, with all graded rollouts of the step, as the environment paid
      them. The facts are metrics.
    moved: whether it reads `Told.change`, which costs a scoring pass.
  """

  begin: Callable[[], State]
  choose: Callable[[State, int], tuple[list[episode.Task], State]]
  observe: Callable[[State, Sequence[episode.Group], Told], tuple[State, Facts]]
  moved: bool = False


def shuffled(pool: Pool) -> Curriculum:
  """Each task once an epoch, in a new order every time; see `source`."""
  tasks = source.shuffled(
    pool.task, size=pool.size, batch=pool.batch, seed=pool.seed
  )

  def choose(state, step):
    del step
    return tasks(state['batches']), {'batches': state['batches'] + 1}

  return Curriculum(
    begin=lambda: {'batches': 0},
    choose=choose,
    observe=lambda state, groups, told: (state, {}),
  )


def finder(pool: Pool) -> Callable[[str], int | None]:
  """Task id -> its index in the pool, None where it is of no task there.

  It makes tasks in their order until it has met the id; none is made twice.
  """
  known: dict[str, int] = {}

  def find(id: str) -> int | None:
    while id not in known and len(known) < pool.size:
      index = len(known)
      known[pool.task(index).id] = index
    return known.get(id)

  return find


class Seen(NamedTuple):
  """How often tasks of a pool were solved, one entry a task that was tried.

  Attributes:
    places: int [n], of the tasks in the pool.
    solved: float [n].
    tried: float [n], at least 1.
  """

  places: np.ndarray
  solved: np.ndarray
  tried: np.ndarray


def seen(
  groups: Sequence[episode.Group], find: Callable[[str], int | None]
) -> Seen:
  """Counts the successes of groups; groups of other tasks are left out."""
  count: dict[int, list[int]] = {}
  for group in groups:
    index = find(group.task.id)
    if index is None:
      continue
    totals = map(episode.total_reward, episode.whole(group.episodes))
    solved = [total >= episode.SOLVED for total in totals]
    before = count.setdefault(index, [0, 0])
    before[0] += sum(solved)
    before[1] += len(solved)
  numbers = np.array(list(count.values()), float).reshape(-1, 2)
  return Seen(np.array(list(count), int), numbers[:, 0], numbers[:, 1])
