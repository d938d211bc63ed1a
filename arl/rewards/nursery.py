"""The process that makes a pool's workers, and ends them with all they made.

Run by `pool`, as a module, with the number of a socket to it. A worker is a
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
import signal
import socket
import struct
import sys
import warnings

from arl.rewards import verdict

LENGTH = struct.Struct('!q')
_PROC = pathlib.Path('/proc')
_TOLD = (_PROC / 'thread-self/children').exists()
# Of prctl(2).
_DEATH_SIGNAL, _SUBREAPER = 1, 36


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


def _kill_tree(pid: int) -> None:
  """Ends a child and all below it: first none can make more, then none lives.

  The child is reaped last, so its number means nothing else before.
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
  with contextlib.suppress(ChildProcessError):
    os.waitpid(pid, 0)


def _sweep(workers: set[int]) -> None:
  """Ends and reaps what workers that are gone have left behind."""
  me = os.getpid()
  for pid in set(_children(me)) - workers:
    _kill_tree(pid)


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
  os.setsid()
  _control(_DEATH_SIGNAL, signal.SIGKILL)
  _control(_SUBREAPER, 1)
  _limit(memory)
  with contextlib.suppress(EOFError, OSError):
    while True:
      answer = _answer(receive(link))
      send(link, json.dumps(answer).encode())


def _fork(control: socket.socket, link: socket.socket, memory: int) -> int:
  pid = os.fork()
  if pid:
    return pid
  try:
    control.close()
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


def serve(control: socket.socket) -> None:
  """Makes and ends workers until the pool hangs up, then ends them all.

  Asked in JSON: {"memory": bytes} with a socket for the new worker is answered
  with its number, {"kill": number} once nothing of that worker lives.
  """
  workers: set[int] = set()
  try:
    _prepare(control)
    while True:
      data, fds, _, _ = socket.recv_fds(control, 4096, 1)
      if not data:
        return
      asked = json.loads(data)
      if fds:
        with socket.socket(fileno=fds[0]) as link:
          workers.add(pid := _fork(control, link, asked['memory']))
      else:
        workers.discard(pid := asked['kill'])
        _kill_tree(pid)
        _sweep(workers)
      send(control, str(pid).encode())
  except (EOFError, ConnectionError):
    return
  finally:
    for pid in workers:
      _kill_tree(pid)
    _sweep(set())


def main() -> None:
  signal.signal(signal.SIGINT, signal.SIG_IGN)
  _control(_SUBREAPER, 1)
  # Libraries that were imported and never used have no threads to lose.
  warnings.filterwarnings('ignore', message='.*fork', category=RuntimeWarning)
  warnings.filterwarnings(
    'ignore', message='.*fork', category=DeprecationWarning
  )
  with socket.socket(fileno=int(sys.argv[1])) as control:
    serve(control)


if __name__ == '__main__':
  main()
