"""The process that makes a pool's workers, and ends them with all they made.

Run by `pool`, as a module, with the numbers of two sockets to it. A worker is a
fork of this process, so it starts in milliseconds with everything imported. It
has one thread, and each worker's descendants stay below that worker: on Linux
worker and nursery adopt the orphans below them.
"""

import contextlib
import ctypes
import gc
import json
import os
import pathlib
import pickle
import resource
import select
import signal
import socket
import struct
import sys
import warnings
from collections.abc import Sequence

from arl.rewards import verdict

LENGTH = struct.Struct('!q')
_PROC = pathlib.Path('/proc')
_TOLD = (_PROC / 'thread-self/children').exists()
# Of prctl(2).
_DEATH_SIGNAL, _SUBREAPER = 1, 36
_SOON = 0.002  # seconds until it looks again


def send(link: socket.socket, data: bytes) -> None:
  """Sends a message: its length, then itself."""
  link.sendall(LENGTH.pack(len(data)) + data)


def receive(link: socket.socket) -> bytes:
  """The next message; EOFError where the other side is gone."""
  (length,) = LENGTH.unpack(_exactly(link, LENGTH.size))
  return _exactly(link, length)


def _exactly(link: socket.socket, count: int) -> bytes:
  data = bytearray()
  while len(data) < count:
    part = link.recv(min(count - len(data), 1 << 20))
    if not part:
      raise EOFError
    data += part
  return bytes(data)


def _control(option: int, value: int) -> None:
  """Asks Linux for a property of this process; elsewhere does nothing."""
  if sys.platform == 'linux':
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _children(pid: int) -> list[int]:
  """The children of a process; none where there is no /proc to ask."""
  if not _TOLD:
    return _by_parent(pid)
  found: list[int] = []
  for path in _PROC.glob(f'{pid}/task/*/children'):
    with contextlib.suppress(OSError):
      found += map(int, path.read_text().split())
  return found


def _by_parent(pid: int) -> list[int]:
  """The same, where the kernel does not tell it, from all processes."""
  found = []
  for path in _PROC.glob('[0-9]*/stat'):
    with contextlib.suppress(OSError):
      if int(path.read_text().rpartition(')')[2].split()[1]) == pid:
        found.append(int(path.parent.name))
  return found


def _below(pid: int) -> set[int]:
  found: set[int] = set()
  waiting = [pid]
  while waiting:
    new = _children(waiting.pop())
    found.update(new)
    waiting += new
  return found


def _signal(pid: int, number: int) -> None:
  with contextlib.suppress(ProcessLookupError, PermissionError):
    os.kill(pid, number)


def _strike(pid: int) -> None:
  """Ends a child and all below it: first none can make more, then none lives.

  The child is left to be reaped, so its number means nothing else before.
  """
  tree = {pid}
  _signal(pid, signal.SIGSTOP)
  while new := _below(pid) - tree:
    for each in new:
      _signal(each, signal.SIGSTOP)
    tree |= new
  with contextlib.suppress(ProcessLookupError, PermissionError):
    os.killpg(pid, signal.SIGKILL)
  for each in tree:
    _signal(each, signal.SIGKILL)


def _reaped(pid: int, options: int) -> bool:
  """Whether a child that was struck is gone."""
  try:
    return os.waitpid(pid, options)[0] == pid
  except ChildProcessError:
    return True


def _gone(pid: int, workers: set[int]) -> bool:
  """Whether a worker that was struck is gone, and what it has left behind."""
  if not _reaped(pid, os.WNOHANG):
    return False
  left = set(_children(os.getpid())) - workers
  for each in left:
    _strike(each)
  gone = [_reaped(each, os.WNOHANG) for each in left]
  return all(gone)


def _end_all(workers: set[int]) -> None:
  for pid in workers:
    _strike(pid)
  for pid in workers:
    _reaped(pid, 0)


def _limit(memory: int) -> None:
  """Lets this process have so many bytes more than it has."""
  with contextlib.suppress(OSError, ValueError):
    pages = int((_PROC / 'self/statm').read_text().split()[0])
    most = pages * resource.getpagesize() + memory
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
  resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _answer(request: bytes) -> verdict.Verdict:
  try:
    function, arguments = pickle.loads(request)
    return verdict.of(function(*arguments))
  except Exception as error:
    return verdict.error(f'{type(error).__name__}: {error}'[:500])


def _work(link: socket.socket, memory: int) -> None:
  """A worker: answers what it is asked until the pool hangs up."""
  _control(_SUBREAPER, 1)
  _limit(memory)
  with contextlib.suppress(EOFError, OSError):
    while True:
      answer = _answer(receive(link))
      send(link, json.dumps(answer).encode())


def _fork(
  others: Sequence[socket.socket], link: socket.socket, memory: int
) -> int:
  """Makes a worker; `others` are sockets that it is not to have.

  A group of its own, so that it can be ended with all it made, but no session:
  Linux shares the processor among sessions first, whatever their priorities.
  """
  nursery = os.getpid()
  pid = os.fork()
  if pid:
    os.setpgid(pid, pid)
    return pid
  try:
    _control(_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() == nursery:  # it may be gone already
      for each in others:
        each.close()
      _work(link, memory)
  finally:
    os._exit(0)


def _prepare(control: socket.socket) -> None:
  """Does what every worker is to have done from its start."""
  if warm := receive(control):
    pickle.loads(warm)()
  gc.collect()
  gc.freeze()
  send(control, b'ready')


def serve(control: socket.socket, ends: socket.socket) -> None:
  """Makes and ends workers until the pool hangs up, then ends them all.

  Asked on `control` in JSON, {"memory": bytes} with a socket for the new
  worker, it answers with the worker's number. Asked on `ends` for a number, one
  at a time, it answers once nothing of that worker lives; what ends at a low
  priority takes long to, and holds up no other worker meanwhile.
  """
  workers: set[int] = set()
  ending: int | None = None
  try:
    _prepare(control)
    while True:
      wait = None if ending is None else _SOON
      ready, _, _ = select.select([control, ends], [], [], wait)
      if control in ready:
        data, fds, _, _ = socket.recv_fds(control, 4096, 1)
        if not data:
          return
        with socket.socket(fileno=fds[0]) as link:
          pid = _fork((control, ends), link, json.loads(data)['memory'])
        workers.add(pid)
        send(control, str(pid).encode())
      if ends in ready:
        ending = int(receive(ends))
        workers.discard(ending)
        _strike(ending)
      if ending is not None and _gone(ending, workers):
        send(ends, b'gone')
        ending = None
  except (EOFError, ConnectionError):
    return
  finally:
    _end_all(workers)
    _end_all(set(_children(os.getpid())))


def main() -> None:
  signal.signal(signal.SIGINT, signal.SIG_IGN)
  _control(_SUBREAPER, 1)
  # Libraries that were imported and never used have no threads to lose.
  warnings.filterwarnings('ignore', message='.*fork', category=RuntimeWarning)
  warnings.filterwarnings(
    'ignore', message='.*fork', category=DeprecationWarning
  )
  with (
    socket.socket(fileno=int(sys.argv[1])) as control,
    socket.socket(fileno=int(sys.argv[2])) as ends,
  ):
    serve(control, ends)


if __name__ == '__main__':
  main()
