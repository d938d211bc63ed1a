"""Verifiers in processes of their own, each call with a hard deadline.

A verifier that hangs in C, eats memory or dies takes its worker with it, and
nothing else: that worker is killed with all its descendants and replaced, while
the other calls go on.
"""

import asyncio
import concurrent.futures
import json
import os
import pickle
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Self

from arl.rewards import nursery, verdict


class _Worker(NamedTuple):
  pid: int
  link: socket.socket


class Pool:
  """Runs verifiers, a few at once.

  A verifier is a function that an import finds, of picklable arguments; it
  returns a number or a Verdict. What it raises is an error verdict, as is the
  death of its process; a call that exceeds its seconds is a timeout. The clock
  starts when a worker takes the call, not while it waits for one.

  For threads, and for asyncio. Use it as a context, or `close` it.
  """

  def __init__(
    self,
    workers: int,
    *,
    seconds: float,
    memory: int = 2 << 30,
    warm: Callable[[], Any] | None = None,
  ):
    """Starts the workers.

    Args:
      workers: calls at once.
      seconds: a call may take, of wall time.
      memory: bytes that a worker may have beyond those it starts with.
      warm: called once, before any worker is made: what it imports and builds
        every worker has from its start.
    """
    for name, value in (
      ('workers', workers), ('seconds', seconds), ('memory', memory),
    ):  # fmt: skip
      if value <= 0:
        raise ValueError(f'Pool: {name} is {value}; give more than 0.')
    self._seconds, self._memory = seconds, memory
    self._lock = threading.Lock()
    self._start(warm)
    self._idle: queue.SimpleQueue[_Worker | None] = queue.SimpleQueue()
    for _ in range(workers):
      self._idle.put(self._make())
    self._threads = concurrent.futures.ThreadPoolExecutor(
      workers, thread_name_prefix='verifier'
    )

  def _start(self, warm: Callable[[], Any] | None) -> None:
    ours, theirs = socket.socketpair()
    path = os.pathsep.join(filter(None, sys.path))
    with theirs:
      self._nursery = subprocess.Popen(
        [sys.executable, '-m', 'arl.rewards.nursery', str(theirs.fileno())],
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        start_new_session=True,
        env={**os.environ, 'PYTHONPATH': path},
      )
    self._control = ours
    try:
      nursery.send(ours, pickle.dumps(warm) if warm else b'')
      nursery.receive(ours)
    except (EOFError, ConnectionError) as failed:
      ours.close()
      raise RuntimeError(
        f'Pool: the workers cannot start: exit status {self._nursery.wait()};'
        ' see stderr above.'
      ) from failed

  def _make(self) -> _Worker:
    ours, theirs = socket.socketpair()
    with theirs, self._lock:
      asked = json.dumps({'memory': self._memory}).encode()
      socket.send_fds(self._control, [asked], [theirs.fileno()])
      pid = int(nursery.receive(self._control))
    return _Worker(pid, ours)

  def _end(self, worker: _Worker) -> None:
    worker.link.close()
    with self._lock:
      self._control.sendall(json.dumps({'kill': worker.pid}).encode())
      nursery.receive(self._control)

  def submit(
    self, function: Callable, *arguments: Any, seconds: float | None = None
  ) -> concurrent.futures.Future[verdict.Verdict]:
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
    return self._threads.submit(
      self._serve, request, self._seconds if seconds is None else seconds
    )

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

  def _serve(self, request: bytes, seconds: float) -> verdict.Verdict:
    worker = self._idle.get()
    try:
      worker = worker or self._make()
      answer, spent = _exchange(worker, request, seconds)
      if spent:
        gone, worker = worker, None
        self._end(gone)
        worker = self._make()
      return answer
    except (EOFError, OSError) as failed:
      worker = None
      return verdict.error(f'the pool cannot make a worker: {failed!r}')
    finally:
      self._idle.put(worker)

  def pids(self) -> list[int]:
    """The processes of the workers that wait; all, if no call is running."""
    waiting = [self._idle.get() for _ in range(self._idle.qsize())]
    for worker in waiting:
      self._idle.put(worker)
    return [worker.pid for worker in waiting if worker]

  def close(self) -> None:
    """Finishes the calls that run, then ends every process of the pool."""
    self._threads.shutdown(cancel_futures=True)
    while not self._idle.empty():
      if worker := self._idle.get():
        worker.link.close()
    self._control.close()
    self._nursery.wait()

  def __enter__(self) -> Self:
    return self

  def __exit__(self, *args: object) -> None:
    self.close()


def _exchange(
  worker: _Worker, request: bytes, seconds: float
) -> tuple[verdict.Verdict, bool]:
  """What a worker answers, and whether it is of no more use."""
  ends = time.monotonic() + seconds
  link = worker.link
  try:
    link.settimeout(seconds)
    nursery.send(link, request)
    link.settimeout(max(ends - time.monotonic(), 1e-3))
    return verdict.Verdict(*json.loads(nursery.receive(link))), False
  except TimeoutError:
    return verdict.timeout(f'no verdict within {seconds:g} s'), True
  except (EOFError, OSError):
    return verdict.error("the verifier's process died"), True
