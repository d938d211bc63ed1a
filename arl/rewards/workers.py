"""Processes that answer calls, made and ended at once (see `nursery`)."""

import contextlib
import json
import os
import pathlib
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from arl.rewards import nursery, verdict

WALL = 5
_LOW = 10  # priority
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
    self._memory, self._lock = memory, threading.Lock()
    self._control, theirs = socket.socketpair()
    path = os.pathsep.join(filter(None, sys.path))
    with theirs:
      self.nursery = subprocess.Popen(
        [sys.executable, '-m', 'arl.rewards.nursery', str(theirs.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,  # what verifiers print
        pass_fds=[theirs.fileno()],
        start_new_session=True,
        env={**os.environ, 'PYTHONPATH': path},
      )
    try:
      nursery.send(self._control, pickle.dumps(warm) if warm else b'')
      nursery.receive(self._control)
    except (EOFError, ConnectionError) as failed:
      self._control.close()
      raise RuntimeError(
        f'Pool: the workers cannot start: exit status {self.nursery.wait()};'
        ' see stderr above.'
      ) from failed

  def make(self) -> Worker:
    """A new worker; EOFError or OSError where the nursery is gone."""
    ours, theirs = socket.socketpair()
    with theirs, self._lock:
      asked = json.dumps({'memory': self._memory}).encode()
      socket.send_fds(self._control, [asked], [theirs.fileno()])
      return Worker(int(nursery.receive(self._control)), ours)

  def end(self, worker: Worker) -> None:
    """Ends a worker and all below it; nothing of it lives afterwards."""
    with self._lock:
      self._control.sendall(json.dumps({'kill': worker.pid}).encode())
      nursery.receive(self._control)

  def close(self) -> None:
    """Ends every process that is left."""
    self._control.close()
    self.nursery.wait()


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


def _used(worker: Worker) -> float:
  """Seconds of the processor that a worker and children it waited for used.

  Without a /proc that tells it, the time.
  """
  try:
    stat = (_PROC / str(worker.pid) / 'stat').read_text()
  except OSError:
    return time.monotonic()
  return sum(map(int, stat.rpartition(')')[2].split()[11:15])) / _TICKS


def answer(given: Given, seconds: float) -> verdict.Verdict | None:
  """What a worker answers, if it does before it has used so many seconds.

  Of the processor, so that a busy machine makes no difference; of wall time it
  has `WALL` times as many, for what waits.

  Returns:
    Its verdict, or None. EOFError or OSError where it is gone.
  """
  link = given.worker.link
  while True:
    used = _used(given.worker) - given.processor
    passed = time.monotonic() - given.wall
    left = min(seconds - used, WALL * seconds - passed)
    if left <= 0:
      return None
    link.settimeout(max(left, _SOON))
    try:
      link.recv(1, socket.MSG_PEEK)
    except TimeoutError:
      continue
    link.settimeout(None)
    return verdict.Verdict(*json.loads(nursery.receive(link)))


def put_last(worker: Worker) -> None:
  """Gives a worker a tenth of the time that another gets."""
  with contextlib.suppress(OSError):
    os.setpriority(os.PRIO_PROCESS, worker.pid, _LOW)
