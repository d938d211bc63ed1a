"""Processes that answer calls, made and ended at once (see `nursery`)."""

import contextlib
import json
import os
import pathlib
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from arl.rewards import nursery, verdict

WALL = 5
_SOON = 0.01
_PROC = pathlib.Path('/proc')
_TICKS = os.sysconf('SC_CLK_TCK')


class Worker(NamedTuple):
  """A process, and the socket to it; it answers one call at a time."""

  pid: int
  link: socket.socket


class Workers:
  """Makes workers and ends them; for threads."""

  def __init__(self, memory: int, warm: Callable[[], Any] | None):
    """Starts the process that forks them; arguments as of `pool.Pool`."""
    self._memory = memory
    self._making, self._ending = threading.Lock(), threading.Lock()
    self._control, control = socket.socketpair()
    self._ends, ends = socket.socketpair()
    path = os.pathsep.join(filter(None, sys.path))
    with control, ends:
      theirs = control.fileno(), ends.fileno()
      self.nursery = subprocess.Popen(
        [sys.executable, '-m', 'arl.rewards.nursery', *map(str, theirs)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,  # what verifiers print
        pass_fds=theirs,
        start_new_session=True,
        env={**os.environ, 'PYTHONPATH': path},
      )
    try:
      nursery.send(self._control, pickle.dumps(warm) if warm else b'')
      nursery.receive(self._control)
    except (EOFError, ConnectionError) as failed:
      self._hang_up()
      raise RuntimeError(
        f'Pool: the workers cannot start: exit status {self.nursery.wait()};'
        ' see stderr above.'
      ) from failed

  def make(self) -> Worker:
    """A new worker; EOFError or OSError where the nursery is gone."""
    ours, theirs = socket.socketpair()
    with theirs, self._making:
      asked = json.dumps({'memory': self._memory}).encode()
      socket.send_fds(self._control, [asked], [theirs.fileno()])
      return Worker(int(nursery.receive(self._control)), ours)

  def end(self, worker: Worker) -> None:
    """Ends a worker and all below it; nothing of it lives afterwards."""
    with self._ending:
      nursery.send(self._ends, str(worker.pid).encode())
      nursery.receive(self._ends)

  def close(self) -> None:
    """Ends every process that is left."""
    self._hang_up()
    self.nursery.wait()

  def _hang_up(self) -> None:
    self._control.close()
    self._ends.close()


class Given(NamedTuple):
  """A call that a worker has, and when it got it.

  Attributes:
    worker: who has it.
    wall: the time then.
    processor: what the worker had used of the processor then.
  """

  worker: Worker
  wall: float
  processor: float


def give(worker: Worker, request: bytes) -> Given:
  """Gives a worker a call; OSError where it is gone."""
  given = Given(worker, time.monotonic(), _used(worker))
  worker.link.settimeout(None)
  nursery.send(worker.link, request)
  return given


def taken(given: Given) -> float:
  """What a call has taken so far, as its limit counts it.

  Seconds of the processor, so that a busy machine makes no difference; or the
  time divided by `WALL`, where that is more, for what waits.
  """
  passed = time.monotonic() - given.wall
  return max(_used(given.worker) - given.processor, passed / WALL)


def _used(worker: Worker) -> float:
  """Seconds of the processor that a worker and children it waited for used.

  Without a /proc that tells it, the time.
  """
  own = _PROC / str(worker.pid)
  try:
    of_children = (own / 'stat').read_text().rpartition(')')[2].split()[13:15]
    ran = (own / 'schedstat').read_text().split()[0]
  except OSError:
    return time.monotonic()
  return int(ran) / 1e9 + sum(map(int, of_children)) / _TICKS


def answer(given: Given, seconds: float) -> verdict.Verdict | None:
  """What a worker answers, if it does before its call has taken `seconds`.

  Returns:
    Its verdict, or None. EOFError or OSError where it is gone.
  """
  link = given.worker.link
  while (left := seconds - taken(given)) > 0:
    link.settimeout(max(left, _SOON))
    try:
      link.recv(1, socket.MSG_PEEK)
    except TimeoutError:
      continue
    link.settimeout(None)
    return verdict.Verdict(*json.loads(nursery.receive(link)))
  return None


class Held(NamedTuple):
  """A call whose worker is stopped; see `go_on`.

  Attributes:
    given: the call.
    passed: seconds that it had taken by the clock.
    used: seconds that it had used of the processor.
  """

  given: Given
  passed: float
  used: float

  @property
  def taken(self) -> float:
    """As `taken` of the call, before it was stopped."""
    return max(self.used, self.passed / WALL)


def hold(given: Given) -> Held:
  """Stops the worker of a call, and those of its group."""
  _signal(given.worker, signal.SIGSTOP)
  used = _used(given.worker) - given.processor
  return Held(given, time.monotonic() - given.wall, used)


def go_on(held: Held) -> Given:
  """Lets a worker go on; the time that it was stopped does not count."""
  worker = held.given.worker
  _signal(worker, signal.SIGCONT)
  return Given(
    worker, time.monotonic() - held.passed, _used(worker) - held.used
  )


def _signal(worker: Worker, number: int) -> None:
  with contextlib.suppress(ProcessLookupError, PermissionError):
    os.killpg(worker.pid, number)
