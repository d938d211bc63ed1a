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


class Clocks(NamedTuple):
  """Two times of a worker, in seconds.

  Attributes:
    ran: that it and children it waited for had the processor.
    awake: by the clock, but for when it waited for the processor.
  """

  ran: float
  awake: float

  def since(self, start: 'Clocks') -> 'Clocks':
    """What has passed."""
    return Clocks(self.ran - start.ran, self.awake - start.awake)

  @property
  def counted(self) -> float:
    """As a limit counts them: what ran, or a part of what waited besides."""
    return max(self.ran, self.awake / WALL)


class Given(NamedTuple):
  """A call that a worker has, and the worker's clocks when it got it."""

  worker: Worker
  start: Clocks


def give(worker: Worker, request: bytes) -> Given:
  """Gives a worker a call; OSError where it is gone."""
  given = Given(worker, _clocks(worker))
  worker.link.settimeout(None)
  nursery.send(worker.link, request)
  return given


def taken(given: Given) -> float:
  """What a call has taken so far: seconds that a busy machine does not add to.

  Those of the processor; or the time divided by `WALL`, where that is more, for
  what waits for something else.
  """
  return _clocks(given.worker).since(given.start).counted


def _clocks(worker: Worker) -> Clocks:
  """The clocks of a worker; without a /proc that tells them, the time."""
  own, now = _PROC / str(worker.pid), time.monotonic()
  try:
    of_children = (own / 'stat').read_text().rpartition(')')[2].split()[13:15]
    ran, queued = (own / 'schedstat').read_text().split()[:2]
  except OSError:
    return Clocks(now, now)
  reaped = sum(map(int, of_children)) / _TICKS
  return Clocks(int(ran) / 1e9 + reaped, now - int(queued) / 1e9)


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
  """A call whose worker is stopped, and what it had taken; see `go_on`."""

  worker: Worker
  passed: Clocks


def hold(given: Given) -> Held:
  """Stops the worker of a call, and those of its group."""
  _signal(given.worker, signal.SIGSTOP)
  return Held(given.worker, _clocks(given.worker).since(given.start))


def go_on(held: Held) -> Given:
  """Lets a worker go on; the time that it was stopped does not count."""
  _signal(held.worker, signal.SIGCONT)
  return Given(held.worker, _clocks(held.worker).since(held.passed))


def _signal(worker: Worker, number: int) -> None:
  with contextlib.suppress(ProcessLookupError, PermissionError):
    os.killpg(worker.pid, number)
