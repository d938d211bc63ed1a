"""Starting a sandbox, up to its gate, and ending it."""

import contextlib
import functools
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO, Any, NamedTuple

from arl.sandbox import base, bubblewrap, isolation, processes, syscalls

_READY = 30.0  # seconds that a machine under load may need to start one
_PATIENCE = 10.0  # seconds until killed processes must be gone
_USERS = 1_900_000_000  # of programs that root runs; nobody else has these
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_count = itertools.count()


class Started(NamedTuple):
  """A program at its gate.

  Attributes:
    process: what was started: bwrap, or the gate itself.
    first: the gate, as this process numbers it.
    handle: the gate, as a pidfd.
    roots: folder that can be written -> its descriptor, which holds it when
      everything in the sandbox has ended.
    user: whom the program is, where that is not this process's user.
  """

  process: subprocess.Popen
  first: int
  handle: int
  roots: Mapping[str, int]
  user: int | None


def users() -> range:
  """The users of this process's programs, where it is root."""
  first = _USERS + os.getpid() % (1 << 15) * 1024
  return range(first, first + 1024)


def _user() -> int:
  mine = users()
  return mine[next(_count) % len(mine)]


@functools.cache
def _names(user: int) -> dict[str, bytes]:
  return {
    'passwd': f'user:x:{user}:{user}::{base.WORK}:/bin/sh\n'.encode(),
    'group': f'user:x:{user}:\n'.encode(),
  }


def _memory(data: bytes) -> int:
  """An open file of some bytes."""
  made = os.memfd_create('data')
  os.write(made, data)
  os.lseek(made, 0, os.SEEK_SET)
  return made


def isolated(
  program: base.Program,
  limits: base.Limits,
  how: isolation.Isolation,
  stack: contextlib.ExitStack,
) -> Started:
  """Starts a program behind bubblewrap; the stack ends and closes it all.

  Raises:
    base.SandboxFailure, OSError: it did not start.
  """
  user = _user() if how.root else None
  process, told = _begin(program, limits, how, user, stack)
  _ready(process)
  first = json.loads(told)['child-pid']
  handle = os.pidfd_open(first)
  stack.callback(os.close, handle)
  stack.callback(_kill, handle)
  inside = {int(name) for name in os.listdir(f'/proc/{first}/fd')}
  if inside != {0, 1, 2}:
    raise base.SandboxFailure(f'descriptors leaked into a sandbox: {inside}')
  roots = {}
  for place in bubblewrap.WRITABLE:
    roots[place] = os.open(f'/proc/{first}/root{place}', _FOLDER)
    stack.callback(os.close, roots[place])
  return Started(process, first, handle, roots, user)


def _begin(
  program: base.Program,
  limits: base.Limits,
  how: isolation.Isolation,
  user: int | None,
  stack: contextlib.ExitStack,
) -> tuple[subprocess.Popen, bytes]:
  """Starts bubblewrap; what it tells of itself, or b'' if it failed."""
  bounds = bubblewrap.rlimits(limits, alone=True, sums=how.home is not None)
  behind = [*bounds, *bubblewrap.environment(program.env), *program.argv]
  told, info = os.pipe()
  with open(told, 'rb') as file, contextlib.ExitStack() as passed:
    passed.callback(os.close, info)
    opened = {'info': info, 'filter': syscalls.descriptor()}
    passed.callback(os.close, opened['filter'])
    for name, data in _names(1000 if user is None else user).items():
      opened[name] = _memory(data)
      passed.callback(os.close, opened[name])
    command = bubblewrap.command(
      how.bwrap, program.mounts, behind, limits.disk, user, opened
    )
    process = _open(command, tuple(opened.values()), '/', stack)
    passed.close()
    return process, file.read()  # to its end: without a reader bwrap dies


def bare(
  program: base.Program, limits: base.Limits, stack: contextlib.ExitStack
) -> Started:
  """Starts a program without isolation; the stack ends and closes it all.

  Raises:
    base.SandboxFailure, OSError: it did not start.
  """
  folder = tempfile.mkdtemp(prefix='arl-unsafe-')
  stack.callback(shutil.rmtree, folder, ignore_errors=True)
  bounds = bubblewrap.rlimits(limits, alone=False, sums=False)
  behind = [*bounds, *bubblewrap.environment(program.env), *program.argv]
  process = _open((*bubblewrap.GATE, *behind), (), folder, stack)
  handle = os.pidfd_open(process.pid)
  stack.callback(os.close, handle)
  stack.callback(_kill_known, process)
  _ready(process)
  root = os.open(folder, _FOLDER)
  stack.callback(os.close, root)
  return Started(process, process.pid, handle, {base.WORK: root}, None)


def end(started: Started, how: isolation.Isolation) -> None:
  """Kills all processes and waits until they are gone.

  Raises:
    base.SandboxFailure: they are not.
  """
  if how.bwrap:
    _kill(started.handle)
  else:
    _kill_known(started.process)
  _reap(started.process)


def _open(
  command: Sequence[str],
  passed: Sequence[int],
  folder: str,
  stack: contextlib.ExitStack,
) -> subprocess.Popen:
  process = subprocess.Popen(
    command,
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    bufsize=0,
    pass_fds=passed,
    cwd=folder,
    env={},
    start_new_session=True,
  )
  for stream in streams(process):
    os.set_blocking(stream.fileno(), False)
    stack.callback(stream.close)
  stack.callback(_stop, process)
  return process


def streams(
  process: Any,
) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
  """stdin, stdout and stderr of a process."""
  return process.stdin, process.stdout, process.stderr


def _ready(process: subprocess.Popen) -> None:
  """Waits for the gate's line."""
  _, out, err = streams(process)
  if _waits_for(out.fileno(), _READY) and out.read(1) == b'\n':
    return
  why = (err.read() or b'').decode(errors='replace').strip()
  raise base.SandboxFailure(
    f'a sandbox did not start: {why or f"silent for {_READY:.0f} s"}'
  )


def _waits_for(descriptor: int, seconds: float) -> bool:
  """Whether a descriptor becomes readable in time."""
  poll = select.poll()
  poll.register(descriptor, select.POLLIN)
  return bool(poll.poll(seconds * 1000))


def _kill(handle: int) -> None:
  """Ends a namespace by its first process; bwrap then ends by itself."""
  with contextlib.suppress(ProcessLookupError):
    signal.pidfd_send_signal(handle, signal.SIGKILL)
  if not _waits_for(handle, _PATIENCE):
    raise base.SandboxFailure('a killed sandbox did not end')


def _kill_known(process: subprocess.Popen) -> None:
  """Ends what is known of a tree that nothing holds together."""
  for pid in processes.tree(process.pid) if process.poll() is None else ():
    with contextlib.suppress(ProcessLookupError):
      os.kill(pid, signal.SIGKILL)
  with contextlib.suppress(ProcessLookupError, PermissionError):
    os.killpg(process.pid, signal.SIGKILL)


def _reap(process: subprocess.Popen) -> None:
  try:
    process.wait(_PATIENCE)
  except subprocess.TimeoutExpired as error:
    raise base.SandboxFailure('a killed sandbox did not end') from error


def _stop(process: subprocess.Popen) -> None:
  """The last resort, where no handle was had; else it has ended already."""
  with contextlib.suppress(subprocess.TimeoutExpired):
    process.wait(2)
  if process.poll() is None:
    process.kill()
  _reap(process)
