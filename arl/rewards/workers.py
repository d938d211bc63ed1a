"""Processes that answer calls, made and ended at once (see `nursery`)."""

import contextlib
import json
import os
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from arl.rewards import nursery, verdict

_LOW = 10


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


def call(worker: Worker, request: bytes) -> None:
  """Gives a worker a call; OSError where it is gone."""
  worker.link.settimeout(None)
  nursery.send(worker.link, request)


def answer(worker: Worker, seconds: float) -> verdict.Verdict | None:
  """What a worker answers; None if nothing within so many seconds.

  EOFError or OSError where it is gone.
  """
  worker.link.settimeout(max(seconds, 1e-3))
  try:
    return verdict.Verdict(*json.loads(nursery.receive(worker.link)))
  except TimeoutError:
    return None


def put_last(worker: Worker) -> None:
  """Gives a worker a tenth of the time that another gets."""
  with contextlib.suppress(OSError):
    os.setpriority(os.PRIO_PROCESS, worker.pid, _LOW)
