"""Where the time of a step goes: sampling, environments, scoring, updates.

The parts of a run that take time are wrapped; each part counts the time in
which at least one call of it is under way, so threads that wait side by side
count once. What is in none of them is waiting, and the host's own work. Where
rollouts run ahead parts overlap, and their shares sum to more than 1.
"""

import collections
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from arl.train import build

SAMPLING, ENVIRONMENT = 'sampling', 'environment'
SCORING, UPDATE = 'scoring', 'update'
PARTS = SAMPLING, ENVIRONMENT, SCORING, UPDATE
_ANY = ''  # at least one of the parts


class Clock:
  """Counts seconds by part since it was last read."""

  def __init__(self):
    self._lock = threading.Lock()
    self._under_way: collections.Counter[str] = collections.Counter()
    self._since: dict[str, float] = {}
    self._spent = dict.fromkeys((*PARTS, _ANY), 0.0)
    self._read = time.monotonic()

  @contextlib.contextmanager
  def during(self, part: str) -> Iterator[None]:
    """The time within counts for a part."""
    with self._lock:
      now = time.monotonic()
      for each in (part, _ANY):
        if not self._under_way[each]:
          self._since[each] = now
        self._under_way[each] += 1
    try:
      yield
    finally:
      with self._lock:
        now = time.monotonic()
        for each in (part, _ANY):
          self._under_way[each] -= 1
          if not self._under_way[each]:
            self._spent[each] += now - self._since[each]

  def read(self) -> dict[str, float]:
    """Metrics of the time since the last reading, which begin anew.

    `time/step` in seconds, and `share/...` of it by part, of calls that go on
    what is past of them; `share/waiting` is what is in none.
    """
    with self._lock:
      now = time.monotonic()
      for part, count in self._under_way.items():
        if count:
          self._spent[part] += now - self._since[part]
          self._since[part] = now
      spent, self._spent = self._spent, dict.fromkeys((*PARTS, _ANY), 0.0)
      whole, self._read = max(now - self._read, 1e-9), now
    shares = {part: spent[part] / whole for part in PARTS}
    rest = max(1 - spent[_ANY] / whole, 0.0)
    return {
      'time/step': whole,
      **{f'share/{part}': share for part, share in shares.items()},
      'share/waiting': rest,
    }


class _Engine:
  """An engine whose sampling is counted."""

  def __init__(self, engine: Any, clock: Clock):
    self._engine, self._clock = engine, clock

  def generate(self, requests, sampling):
    """The samples of the engine."""
    with self._clock.during(SAMPLING):
      return self._engine.generate(requests, sampling)

  def __getattr__(self, name: str) -> Any:
    return getattr(self._engine, name)


class _Talking(_Engine):
  """An engine with coroutines, whose sampling is counted."""

  async def sample(self, request, sampling):
    """The sample of the engine."""
    with self._clock.during(SAMPLING):
      return await self._engine.sample(request, sampling)


def timed(world: build.World, clock: Clock) -> build.World:
  """The world with its sampling and its environment counted."""

  def counted(function: Callable) -> Callable:
    def call(*args):
      with clock.during(ENVIRONMENT):
        return function(*args)

    return call

  env = world.env._replace(
    reset=counted(world.env.reset), step=counted(world.env.step)
  )
  kind = _Talking if hasattr(world.engine, 'sample') else _Engine
  return world._replace(engine=kind(world.engine, clock), env=env)
