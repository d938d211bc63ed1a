"""From the thread that computes to the event loops that wait."""

import asyncio
import concurrent.futures
from typing import Any

from arl.rollout import tickets


class Mailbox:
  """Results by event loop, sent once for many."""

  def __init__(self):
    self._letters: dict[Any, list] = {}

  def post(self, row: tickets.Ticket, value: Any, last: bool) -> None:
    """Keeps a value for a ticket's sink until `send`."""
    self._letters.setdefault(row.loop, []).append((row.sink, value, last))

  def send(self) -> None:
    """Calls the sinks, each in its own loop, unless that is closed."""
    letters, self._letters = self._letters, {}
    for loop, each in letters.items():
      if loop is None:
        _open(each)
        continue
      try:
        loop.call_soon_threadsafe(_open, each)
      except RuntimeError:
        continue


def _open(letters):
  for sink, value, last in letters:
    sink(value, last)


def into(future: concurrent.futures.Future) -> tickets.Sink:
  """A sink that keeps the last result."""

  def sink(value, last):
    if isinstance(value, Exception):
      future.set_exception(value)
    elif last:
      future.set_result(value)

  return sink


class Results:
  """The results of one ticket, to iterate over in the loop that made this.

  Attributes:
    loop: that one.
    ended: whether the last has come.
  """

  def __init__(self):
    self.loop = asyncio.get_running_loop()
    self.ended = False
    self._ready: asyncio.Queue = asyncio.Queue()

  def sink(self, value: Any, last: bool) -> None:
    """Takes a result, in the loop."""
    self.ended = last
    self._ready.put_nowait((value, last))

  async def __aiter__(self):
    last = False
    while not last:
      value, last = await self._ready.get()
      if isinstance(value, Exception):
        raise value
      yield value
