"""What rollouts cost, task by task, and intervals over tasks."""

import collections
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from arl import episode
from arl.envs import base
from arl.rollout import engine as engine_lib
from arl.train import build, evaluation

_DRAWS = 2000


class Bill(NamedTuple):
  """What the rollouts of each task took, [P].

  Attributes:
    episodes: of each task.
    tokens: that were sampled, those thrown away included.
    turns: that were asked for: calls of tools, and turns thrown away.
  """

  episodes: list[list[episode.Episode]]
  tokens: np.ndarray
  turns: np.ndarray


class Line(NamedTuple):
  """A number of the study.

  Attributes:
    name: of it.
    value: of it.
    interval: at 95 %; None where there is none.
    aim: what the method's description says of it; '' for nothing.
  """

  name: str
  value: float
  interval: list[float] | None = None
  aim: str = ''


class Toy(NamedTuple):
  """A world that is played, and chains in it to compare with.

  Attributes:
    world: with an engine that holds the warm start.
    tasks: held out.
    chains: independent rollouts of each.
  """

  world: build.World
  tasks: list[episode.Task]
  chains: Bill


class _Counted:
  """An engine that notes what it samples for each task."""

  def __init__(self, engine: engine_lib.Engine, place: int):
    self.engine, self.place = engine, place
    self.tokens: dict[int, int] = collections.Counter()
    self.turns: dict[int, int] = collections.Counter()

  def generate(self, requests, sampling):
    made = self.engine.generate(requests, sampling)
    for request, sample in zip(requests, made):
      task = request.path[self.place]
      self.tokens[task] += len(sample.tokens)
      self.turns[task] += 1
    return made

  def score(self, sequences, temperature):
    return self.engine.score(sequences, temperature)


def play(
  world: build.World,
  strategy: Callable,
  tasks: Sequence[episode.Task],
  samples: int,
  seed: int,
  temperature: float = 1.0,
  **told: Any,
) -> Bill:
  """The rollouts of a strategy and what they took."""
  sampling = engine_lib.Sampling(temperature=temperature, entropy=True)
  plan = evaluation.plan(world, samples, sampling, (evaluation.SHOWING, seed))
  engine = _Counted(world.engine, len(plan.path))
  made = strategy(engine, world.env, world.chat, tasks, plan, **told)
  found = {group.task.id: group.episodes for group in episode.groups(made)}
  each = range(len(tasks))
  return Bill(
    [list(found[task.id]) for task in tasks],
    np.array([engine.tokens[i] for i in each], float),
    np.array([engine.turns[i] for i in each], float),
  )


def first(chains: Bill, count: int) -> Bill:
  """The bill of the first so many chains of each task."""
  few = [group[:count] for group in chains.episodes]
  return Bill(few, sampled(few), turns(few))


def sampled(groups: Sequence[Sequence[episode.Episode]]) -> np.ndarray:
  return np.array([sum(int(e.mask.sum()) for e in g) for g in groups], float)


def turns(groups: Sequence[Sequence[episode.Episode]]) -> np.ndarray:
  return np.array([sum(len(e.exchanges) for e in g) for g in groups], float)


def held_out(world: build.World, count: int) -> list[episode.Task]:
  """Tasks that the policy has not seen."""
  return [world.env.task(base.HELD_OUT, i) for i in range(count)]


def solved(one: episode.Episode) -> bool:
  return episode.total_reward(one) >= episode.SOLVED


def success(groups: Sequence[Sequence[episode.Episode]]) -> np.ndarray:
  """The success rate of each task, [P]."""
  return np.array([np.mean([solved(one) for one in group]) for group in groups])


def mixed(group: Sequence[episode.Episode]) -> bool:
  """Whether the rollouts of a task earned different totals."""
  return len({episode.total_reward(one) for one in group}) > 1


def ratio(left: np.ndarray, right: np.ndarray) -> tuple[float, list[float]]:
  """sum(left) / sum(right), and its 95 % bootstrap interval over tasks.

  Args:
    left: of each task, [P].
    right: of the same tasks, [P], whose sum is above 0.
  """
  rng = np.random.default_rng(0)
  picks = rng.integers(len(left), size=(_DRAWS, len(left)))
  below = np.asarray(right, float)[picks].sum(1)
  drawn = np.asarray(left, float)[picks].sum(1)[below > 0] / below[below > 0]
  value = float(np.sum(left) / np.sum(right))
  return value, _interval(drawn)


def mean(values: Sequence[float] | np.ndarray) -> tuple[float, list[float]]:
  """The mean over tasks, and its 95 % bootstrap interval."""
  return ratio(np.asarray(values, float), np.ones(len(values)))


def _interval(drawn: np.ndarray) -> list[float]:
  return [round(float(x), 4) for x in np.quantile(drawn, (0.025, 0.975))]
