"""Two sides measured in turn, and what the rounds say."""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks import processes

_LEVEL = 0.95


class Plan(NamedTuple):
  """How long to measure.

  Attributes:
    rounds: how often the sides take turns.
    seconds: how long a side computes in a round, about.
    repeats: how often it computes at least.
  """

  rounds: int
  seconds: float
  repeats: int


FULL = Plan(rounds=9, seconds=0.3, repeats=3)
QUICK = Plan(rounds=3, seconds=0.03, repeats=1)


def repeats(plan: Plan, seconds: float) -> int:
  """How often to repeat what takes so long."""
  return min(max(plan.repeats, round(plan.seconds / seconds)), 1000)


def measure(
  ours: processes.Worker,
  theirs: processes.Worker,
  firsts: tuple[float, float],
  plan: Plan,
) -> tuple[list[float], list[float]]:
  """The shortest seconds of each round, ours and theirs.

  Args:
    ours: has the row prepared.
    theirs: the same.
    firsts: seconds that one call took, ours and theirs.
    plan: how long to measure.
  """
  counts = [repeats(plan, seconds) for seconds in firsts]
  made: tuple[list[float], list[float]] = ([], [])
  for _ in range(plan.rounds):
    for worker, count, times in zip((ours, theirs), counts, made):
      times.append(worker.ask(repeats=count))
  return made


def median(values: Sequence[float]) -> tuple[float, list[float]]:
  """The median over rounds and an interval for it.

  The interval lies between two of the values, as many from either end. It holds
  the median of whatever distribution they have with 95 %, or with what the
  whole range gives if they are fewer than six (Conover, Practical Nonparametric
  Statistics, 3.2).
  """
  ordered, n = sorted(values), len(values)
  outside, cut = 0.0, 0
  for k in range(n // 2):
    outside += 2 * math.comb(n, k) / 2**n
    if outside > 1 - _LEVEL:
      break
    cut = k
  return statistics.median(ordered), [ordered[cut], ordered[-1 - cut]]
