"""Many callers, one engine: what is asked meanwhile becomes the next batch.

An engine that answers a whole batch at once is offered as one that each caller
asks for itself. What a request is answered does not depend on who else asks.
"""

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

from arl.rollout import engine as engine_lib
from arl.rollout import resume

_GRACE = 0.01  # seconds in which those that just got an answer may ask again


class _Asked(NamedTuple):
  request: engine_lib.Request
  sampling: engine_lib.Sampling
  loop: asyncio.AbstractEventLoop
  answer: asyncio.Future


class Batched:
  """The coroutines of an engine that has none."""

  def __init__(self, engine: engine_lib.Engine):
    self._engine = engine
    self._waiting: queue.Queue[_Asked | None] = queue.Queue()

  async def sample(
    self, request: engine_lib.Request, sampling: engine_lib.Sampling
  ) -> engine_lib.Sample:
    """One sample; errors are those of the engine."""
    loop = asyncio.get_running_loop()
    asked = _Asked(request, sampling, loop, loop.create_future())
    self._waiting.put(asked)
    return await asked.answer

  async def stream(
    self, request: engine_lib.Request, sampling: engine_lib.Sampling
  ) -> AsyncIterator[engine_lib.Sample]:
    """The whole sample at once: such an engine has nothing to show before."""
    yield await self.sample(request, sampling)

  def run(self) -> None:
    """Answers until `stop` is called; for a thread of its own."""
    while True:
      first = self._waiting.get()
      if first is None:
        return
      time.sleep(_GRACE)
      batch: list[_Asked] = [first]
      while not self._waiting.empty():
        asked = self._waiting.get()
        if asked is None:
          self._waiting.put(None)
          break
        batch.append(asked)
      self._answer([asked for asked in batch if not asked.answer.cancelled()])

  def stop(self) -> None:
    """Ends `run`, after what was asked before."""
    self._waiting.put(None)

  def _answer(self, batch: list[_Asked]) -> None:
    kinds: dict[tuple, list[_Asked]] = {}
    for asked in batch:
      kind = (asked.sampling, len(asked.request.path))
      kinds.setdefault(kind, []).append(asked)
    for (sampling, _), alike in kinds.items():
      requests = [asked.request for asked in alike]
      try:
        samples = resume.generate(self._engine.generate, requests, sampling)
      except Exception as error:
        for asked in alike:
          _tell(asked, None, error)
      else:
        for asked, sample in zip(alike, samples):
          _tell(asked, sample, None)


def _tell(asked: _Asked, sample, error) -> None:
  def tell():
    if asked.answer.done():
      return
    if error is not None:
      asked.answer.set_exception(error)
    else:
      asked.answer.set_result(sample)

  with contextlib.suppress(RuntimeError):  # its loop is closed: nobody waits
    asked.loop.call_soon_threadsafe(tell)


@contextlib.contextmanager
def coroutines(engine: Any) -> Iterator[Any]:
  """An engine's coroutines, `sample` and `stream`, while the block runs.

  Its own, or where it has none, those of a Batched one in a thread.
  """
  if hasattr(engine, 'sample'):
    yield engine
    return
  made = Batched(engine)
  thread = threading.Thread(target=made.run, name='engine', daemon=True)
  thread.start()
  try:
    yield made
  finally:
    made.stop()
    thread.join()
