"""An event loop in a thread of its own, for callers with none or another."""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

T = TypeVar('T')


class Loop:
  """Runs coroutines from any thread. Connections belong to one event loop."""

  def __init__(self):
    self._loop = asyncio.new_event_loop()
    self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
    self._thread.start()

  def run(self, work: Coroutine[Any, Any, T]) -> T:
    """The result, when it is there; Ctrl-C cancels the work."""
    future = asyncio.run_coroutine_threadsafe(work, self._loop)
    try:
      return future.result()
    except BaseException:
      future.cancel()
      raise

  async def wait(self, work: Coroutine[Any, Any, T]) -> T:
    """The result, for another event loop; cancelling it cancels the work."""
    future = asyncio.run_coroutine_threadsafe(work, self._loop)
    return await asyncio.wrap_future(future)

  def stop(self) -> None:
    self._loop.call_soon_threadsafe(self._loop.stop)
    self._thread.join()
    self._loop.close()


async def together(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
  """All results, in order; the first failure cancels the others."""
  tasks = [asyncio.ensure_future(each) for each in work]
  try:
    return await asyncio.gather(*tasks)
  except BaseException:
    for task in tasks:
      task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    raise
