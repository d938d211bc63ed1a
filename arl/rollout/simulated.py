"""Rollouts and a trainer without a model, on a clock of its own.

What a rollout costs is a number of seconds, so that thousands of updates take a
second: for the laws of `windowed` and `staleness`, and to choose their
parameters before a run does. Samplers work on `concurrent` rollouts at a time;
the trainer takes what the window allows, waits for as many as an update has,
and is busy for a while. Rollouts fail, and runs are killed and begin again from
their last checkpoint.
"""

import heapq
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from arl.rollout import staleness, windowed


class Plan(NamedTuple):
  """What is simulated; times in seconds.

  Attributes:
    seconds: (random generator) -> how long a rollout takes.
    updates: of the run.
    per_update: rollouts of an update.
    concurrent: rollouts at a time.
    lag: versions that they may be behind.
    width: of the window.
    update: how long an update takes.
    deadline: after which a rollout is given up.
    fails: the share of rollouts that fail, when they would have finished.
    killed: versions at which the run is killed, once each, and begins again.
    every: updates from one checkpoint to the next.
  """

  seconds: Callable[[np.random.Generator], float]
  updates: int
  per_update: int = 8
  concurrent: int = 32
  lag: int = 2
  width: float = math.inf
  update: float = 1.0
  deadline: float = math.inf
  fails: float = 0.0
  killed: tuple[int, ...] = ()
  every: int = 4


class Used(NamedTuple):
  """A rollout that was trained on.

  Attributes:
    number: in the order of issue.
    seconds: that it took.
    began: the version it was begun with.
    version: that its update started from.
    head: of the window when it was taken.
  """

  number: int
  seconds: float
  began: int
  version: int
  head: int


class Seen(NamedTuple):
  """What came of a run.

  Attributes:
    used: what was trained on, in order, and not undone by a restart.
    issued: the seconds that each number would take, failed ones too.
    seconds: that it all took.
    waiting: seconds that the trainer waited for rollouts.
    lost: by why: failed, late, stale, or gone in a restart.
  """

  used: list[Used]
  issued: list[float]
  seconds: float
  waiting: float
  lost: dict[str, int]


class _Run:
  """The state of a simulated run."""

  def __init__(self, plan: Plan, seed: int):
    self.plan, self.rng = plan, np.random.default_rng(seed)
    self.now, self.waiting, self.version = 0.0, 0.0, 0
    self.window = windowed.opened(plan.width)
    self.issued: list[float] = []
    self.began: list[int] = []
    self.running: list[tuple[float, int, str]] = []  # end, number, how
    self.finished: list[int] = []  # the first to finish first
    self.taken: list[Used] = []  # for the next update
    self.used: list[Used] = []
    self.lost = dict.fromkeys(('failed', 'late', 'stale', 'restart'), 0)
    self.kills = sorted(plan.killed)

  def issue(self) -> None:
    """Begins as many rollouts as the gate lets through."""
    plan = self.plan
    waiting = len(self.finished) + len(self.taken)
    accepted = staleness.restored(self.version, plan.per_update) + waiting
    room = staleness.capacity(
      self.version,
      accepted,
      len(self.running),
      per_update=plan.per_update,
      concurrent=plan.concurrent,
      lag=plan.lag,
    )
    for _ in range(room):
      seconds, fails = plan.seconds(self.rng), self.rng.random() < plan.fails
      how = 'failed' if fails else 'late' if seconds > plan.deadline else ''
      end = self.now + min(seconds, plan.deadline)
      heapq.heappush(self.running, (end, len(self.issued), how))
      self.issued.append(seconds)
      self.began.append(self.version)

  def advance(self, until: float) -> None:
    """Lets rollouts end up to a time, and others begin in their place."""
    while self.running and self.running[0][0] <= until:
      self.now, number, how = heapq.heappop(self.running)
      if how:
        self.give_up(number, how)
      else:
        self.finished.append(number)
      self.issue()
    self.now = until

  def give_up(self, number: int, why: str) -> None:
    """Counts a rollout that comes to nothing; the window goes past it."""
    self.lost[why] += 1
    self.window = windowed.passed(self.window, number)

  def drop_stale(self) -> None:
    """Gives up what would be too old for the next update, ended or not."""
    under_way = [*self.finished, *(number for _, number, _ in self.running)]
    lag = self.plan.lag
    for number in under_way:
      if staleness.stale(self.began[number], self.version, lag):
        self.give_up(number, 'stale')
    kept = lambda n: not staleness.stale(self.began[n], self.version, lag)
    self.finished = [n for n in self.finished if kept(n)]
    self.running = [one for one in self.running if kept(one[1])]
    heapq.heapify(self.running)

  def collect(self) -> None:
    """Takes what the window allows, the first to finish first."""
    while len(self.taken) < self.plan.per_update:
      there = windowed.allowed(self.window, self.finished)
      if not there:
        return
      number, head = there[0], self.window.head
      self.finished.remove(number)
      self.window = windowed.take(self.window, number)
      self.taken.append(
        Used(number, self.issued[number], self.began[number], -1, head)
      )

  def step(self) -> None:
    """Waits for an update's rollouts and makes it."""
    self.collect()
    while len(self.taken) < self.plan.per_update:
      self.issue()
      before, now = self.now, self.running[0][0]
      self.advance(now)
      self.waiting += now - before
      self.collect()
    self.advance(self.now + self.plan.update)
    self.used += [u._replace(version=self.version) for u in self.taken]
    self.taken, self.version = [], self.version + 1
    self.drop_stale()
    self.issue()

  def restart(self) -> None:
    """Begins again from the last checkpoint, without what was under way."""
    gone = len(self.running) + len(self.finished) + len(self.taken)
    self.version -= self.version % self.plan.every
    kept = self.version * self.plan.per_update
    self.lost['restart'] += gone + len(self.used) - kept
    self.used = self.used[:kept]
    self.running, self.finished, self.taken = [], [], []
    self.window = windowed.opened(self.plan.width, len(self.issued))
    self.issue()


def run(plan: Plan, seed: int) -> Seen:
  """Simulates a run.

  Args:
    plan: what to simulate.
    seed: of the times and failures.
  """
  made = _Run(plan, seed)
  made.issue()
  while made.version < plan.updates:
    made.step()
    if made.kills and made.version >= made.kills[0]:
      made.kills.pop(0)
      made.restart()
  return Seen(made.used, made.issued, made.now, made.waiting, made.lost)
