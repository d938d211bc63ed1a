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
import statistics
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Self

from arl.rewards import verdict, workers

_Answer = concurrent.futures.Future[verdict.Verdict]
_DIED = verdict.error("the verifier's process died")
_CLOSED = verdict.error('the pool was closed before it had a verdict')
# When a call is late: after so many times the median of the calls before it,
# but never sooner than the least of seconds.
_TIMES, _RECENT = 4, 64
_AT_FIRST, _LEAST = 0.2, 0.03
_ASIDE = 64  # late calls that are put aside, for each worker


class _Call(NamedTuple):
  request: bytes
  seconds: float
  answer: _Answer


class _Late(NamedTuple):
  """A call that is put aside, and how far it goes next."""

  call: _Call
  held: workers.Held
  until: float


class Pool:
  """Runs verifiers, a few at once.

  A verifier is a function that an import finds, of picklable arguments; it
  returns a number or a Verdict. What it raises is an error verdict, as is the
  death of its process; a call that exceeds its seconds is a timeout. They are
  of the processor, so that a busy machine makes no difference, and a call may
  take five times as long, to wait for something; both count from when a worker
  takes it.

  A call that takes four times as long as most is late: its worker is stopped
  and put aside, and goes on where it was when no other call waits; those that
  have taken least first, each until it has taken twice as much. So what does
  not end costs the others little, and what is only slow still has its verdict.
  With 64 calls aside for each worker, the oldest is finished before the next.

  For threads, and for asyncio. Use it as a context, or `close` it.
  """

  def __init__(
    self,
    count: int,
    *,
    seconds: float,
    memory: int = 2 << 30,
    warm: Callable[[], Any] | None = None,
  ):
    """Starts the workers.

    Args:
      count: calls at once, apart from those put aside.
      seconds: of the processor that a call may use.
      memory: bytes that a worker may have beyond those it starts with.
      warm: called once, before any worker is made: what it imports and builds
        every worker has from its start.
    """
    for name, value in (
      ('count', count), ('seconds', seconds), ('memory', memory),
    ):  # fmt: skip
      if value <= 0:
        raise ValueError(f'Pool: {name} is {value}; give more than 0.')
    self._seconds = seconds
    self._taken: collections.deque[float] = collections.deque(maxlen=_RECENT)
    self._calls: collections.deque[_Call] = collections.deque()
    self._late: list[_Late] = []
    self._most_late = _ASIDE * count
    self._changed = threading.Condition()
    self._closed = False
    self._workers = workers.Workers(memory, warm)
    self._own: list[workers.Worker | None] = [
      self._workers.make() for _ in range(count)
    ]
    self._threads = [
      threading.Thread(target=self._run, args=(i,), daemon=True)
      for i in range(count)
    ]
    for thread in self._threads:
      thread.start()

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
      RuntimeError: the pool is closed.
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
    with self._changed:
      if self._closed:
        raise RuntimeError('Pool: it is closed; make another.')
      self._calls.append(_Call(request, limit, answer))
      self._changed.notify()
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

  def _next(self) -> _Call | _Late | None:
    """What is to be done; waits for it. None once there is nothing more."""
    with self._changed:
      while True:
        if len(self._late) >= self._most_late:
          oldest = self._late.pop(0)
          return oldest._replace(until=oldest.call.seconds)
        if self._calls:
          return self._calls.popleft()
        if self._late:
          least = min(self._late, key=lambda late: late.held.passed.counted)
          self._late.remove(least)
          return least
        if self._closed:
          return None
        self._changed.wait()

  def _run(self, mine: int) -> None:
    """A thread: does one thing after another, with a worker of its own."""
    while (found := self._next()) is not None:
      if isinstance(found, _Late):
        self._resume(found)
      elif found.answer.set_running_or_notify_cancel():
        self._own[mine] = self._serve(found, self._own[mine])

  def _serve(
    self, call: _Call, worker: workers.Worker | None
  ) -> workers.Worker | None:
    """Answers a call, or puts it aside; gives the worker for the next."""
    worker = worker or self._fresh()
    if worker is None:
      call.answer.set_result(verdict.error('the pool can make no worker'))
      return None
    given = _give(worker, call.request)
    patience = self._patience()
    found = _hear(given, min(patience, call.seconds))
    if given and found not in (None, _DIED):
      self._taken.append(workers.taken(given))
      call.answer.set_result(found)
      return worker
    if given and found is None and patience < call.seconds:
      self._put_aside(given, call)
    else:
      self._end(worker)
      call.answer.set_result(found or _too_late(call))
    return self._fresh()

  def _put_aside(self, given: workers.Given, call: _Call) -> None:
    held = workers.hold(given)
    until = min(2 * held.passed.counted, call.seconds)
    with self._changed:
      self._late.append(_Late(call, held, until))
      self._changed.notify()

  def _patience(self) -> float:
    """Seconds, counted as a call's limit is, after which it is late."""
    taken = self._taken.copy()
    if not taken:
      return _AT_FIRST
    return max(_LEAST, _TIMES * statistics.median(taken))

  def _resume(self, late: _Late) -> None:
    """Goes on with a call that was put aside; ends it if the pool is closed."""
    found: verdict.Verdict | None = _CLOSED
    if not self._closed:
      given = workers.go_on(late.held)
      found = _hear(given, late.until)
      if found is None and late.until < late.call.seconds:
        self._put_aside(given, late.call)
        return
      self._taken.append(workers.taken(given))
    self._end(late.held.worker)
    late.call.answer.set_result(found or _too_late(late.call))

  def _fresh(self) -> workers.Worker | None:
    try:
      return self._workers.make()
    except (EOFError, OSError):
      return None

  def _end(self, worker: workers.Worker) -> None:
    with contextlib.suppress(EOFError, OSError):
      self._workers.end(worker)
    worker.link.close()

  def pids(self) -> list[int]:
    """The processes of the workers; of those put aside none."""
    return [worker.pid for worker in self._own if worker]

  def close(self) -> None:
    """Finishes the calls that run, then ends every process of the pool.

    Calls that wait for a worker are cancelled, and those put aside errors.
    """
    with self._changed:
      self._closed = True
      waiting = [*self._calls]
      self._calls.clear()
      self._changed.notify_all()
    for call in waiting:
      call.answer.cancel()
    for thread in self._threads:
      thread.join()
    for worker in filter(None, self._own):
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
