"""Verifiers in processes of their own, each call with a hard deadline.

A verifier that hangs in C, eats memory or dies takes its worker with it, and
nothing else: that worker is killed with all its descendants and replaced, while
the other calls go on.
"""

import asyncio
import collections
import concurrent.futures
import contextlib
import pickle
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Self

from arl.rewards import verdict, workers

_Answer = concurrent.futures.Future[verdict.Verdict]
_DIED = verdict.error("the verifier's process died")
# Calls that may go on late, for each worker.
_LATE = 4


class _Call(NamedTuple):
  request: bytes
  seconds: float
  answer: _Answer


class Pool:
  """Runs verifiers, a few at once.

  A verifier is a function that an import finds, of picklable arguments; it
  returns a number or a Verdict. What it raises is an error verdict, as is the
  death of its process; a call that exceeds its seconds is a timeout. They are
  of the processor, so that a busy machine makes no difference, and a call may
  take five times as long, to wait for something; both count from when a worker
  takes it.

  A call that takes longer than most is late: another worker takes its place,
  and it goes on at a low priority. Four times as many calls as there are
  workers may be late; one more, and the one that is late longest is ended, a
  timeout. So what does not end costs the others little.

  For threads, and for asyncio. Use it as a context, or `close` it.
  """

  def __init__(
    self,
    count: int,
    *,
    seconds: float,
    patience: float = 0.2,
    memory: int = 2 << 30,
    warm: Callable[[], Any] | None = None,
  ):
    """Starts the workers.

    Args:
      count: calls at once, apart from late ones.
      seconds: of the processor that a call may use.
      patience: seconds after which a call is late.
      memory: bytes that a worker may have beyond those it starts with.
      warm: called once, before any worker is made: what it imports and builds
        every worker has from its start.
    """
    for name, value in (
      ('count', count), ('seconds', seconds), ('patience', patience),
      ('memory', memory),
    ):  # fmt: skip
      if value <= 0:
        raise ValueError(f'Pool: {name} is {value}; give more than 0.')
    self._seconds, self._patience = seconds, patience
    self._workers = workers.Workers(memory, warm)
    self._idle: queue.SimpleQueue[workers.Worker | None] = queue.SimpleQueue()
    for _ in range(count):
      self._idle.put(self._workers.make())
    threads = concurrent.futures.ThreadPoolExecutor
    self._prompt = threads(count, thread_name_prefix='verifier')
    self._late = threads(_LATE * count + 1, thread_name_prefix='late')
    self._most_late = _LATE * count
    self._lock = threading.Lock()
    self._running_late: collections.OrderedDict[int, workers.Worker] = (
      collections.OrderedDict()
    )
    self._closed = False

  def submit(
    self, function: Callable, *arguments: Any, seconds: float | None = None
  ) -> _Answer:
    """Asks for a verdict; the future has it.

    Args:
      function: the verifier.
      *arguments: of it.
      seconds: for this call, instead of the pool's.

    Raises:
      ValueError: another process cannot find the function.
    """
    if getattr(function, '__module__', '') == '__main__':
      raise ValueError(
        f'Pool: {function.__qualname__} is of __main__, which other processes'
        ' cannot import; move it to a module.'
      )
    try:
      request = pickle.dumps((function, arguments))
    except (pickle.PicklingError, AttributeError, TypeError) as failed:
      raise ValueError(
        f'Pool: {function!r} and its arguments cannot be pickled: {failed};'
        ' use a function of a module, and plain data.'
      ) from failed
    answer: _Answer = concurrent.futures.Future()
    limit = self._seconds if seconds is None else seconds
    self._prompt.submit(self._serve, _Call(request, limit, answer))
    return answer

  def call(
    self, function: Callable, *arguments: Any, seconds: float | None = None
  ) -> verdict.Verdict:
    """The verdict of one call; waits for it."""
    return self.submit(function, *arguments, seconds=seconds).result()

  async def ask(
    self, function: Callable, *arguments: Any, seconds: float | None = None
  ) -> verdict.Verdict:
    """The verdict of one call; the event loop goes on meanwhile."""
    return await asyncio.wrap_future(
      self.submit(function, *arguments, seconds=seconds)
    )

  def map(
    self, function: Callable, arguments: Iterable[Sequence[Any]]
  ) -> list[verdict.Verdict]:
    """The verdicts of many calls, in their order."""
    return [f.result() for f in [self.submit(function, *a) for a in arguments]]

  def _serve(self, call: _Call) -> None:
    """Answers a call, or leaves it to another thread once it is late."""
    if self._closed:
      call.answer.cancel()
    if not call.answer.set_running_or_notify_cancel():
      return
    worker = self._idle.get() or self._fresh()
    if worker is None:
      call.answer.set_result(verdict.error('the pool can make no worker'))
      self._idle.put(None)
      return
    given = _give(worker, call.request)
    found = _hear(given, min(self._patience, call.seconds))
    if found not in (None, _DIED):
      self._idle.put(worker)
      call.answer.set_result(found)
      return
    if found is None and call.seconds > self._patience:
      self._let_late(worker)
      self._late.submit(self._finish, worker, given, call)
    else:
      self._end(worker)
      call.answer.set_result(found or _too_late(call))
    self._idle.put(self._fresh())

  def _let_late(self, worker: workers.Worker) -> None:
    """Lets a worker go on; ends the one that is late longest for it."""
    workers.put_last(worker)
    oldest = None
    with self._lock:
      self._running_late[worker.pid] = worker
      if len(self._running_late) > self._most_late:
        _, oldest = self._running_late.popitem(last=False)
    if oldest:
      self._kill(oldest)  # its thread is told by the socket

  def _finish(
    self, worker: workers.Worker, given: workers.Given | None, call: _Call
  ) -> None:
    """Answers a call that is late."""
    found = _hear(given, call.seconds)
    with self._lock:
      ours = self._running_late.pop(worker.pid, None)
    if ours:
      self._end(worker)
    else:
      worker.link.close()
      found = None
    call.answer.set_result(found or _too_late(call))

  def _fresh(self) -> workers.Worker | None:
    try:
      return self._workers.make()
    except (EOFError, OSError):
      return None

  def _kill(self, worker: workers.Worker) -> None:
    with contextlib.suppress(EOFError, OSError):
      self._workers.end(worker)

  def _end(self, worker: workers.Worker) -> None:
    self._kill(worker)
    worker.link.close()

  def pids(self) -> list[int]:
    """The processes of the workers that wait; all, if no call is running."""
    waiting = [self._idle.get() for _ in range(self._idle.qsize())]
    for worker in waiting:
      self._idle.put(worker)
    return [worker.pid for worker in waiting if worker]

  def close(self) -> None:
    """Finishes the calls that run, then ends every process of the pool.

    Calls that wait for a worker are cancelled.
    """
    self._closed = True
    self._prompt.shutdown()
    self._late.shutdown()
    while not self._idle.empty():
      if worker := self._idle.get():
        worker.link.close()
    self._workers.close()

  def __enter__(self) -> Self:
    return self

  def __exit__(self, *args: object) -> None:
    self.close()


def _too_late(call: _Call) -> verdict.Verdict:
  return verdict.timeout(f'no verdict within {call.seconds:g} s of work')


def _give(worker: workers.Worker, request: bytes) -> workers.Given | None:
  try:
    return workers.give(worker, request)
  except OSError:
    return None


def _hear(
  given: workers.Given | None, seconds: float
) -> verdict.Verdict | None:
  """What a worker answers; None if nothing yet."""
  try:
    return workers.answer(given, seconds) if given else _DIED
  except (EOFError, OSError):
    return _DIED
