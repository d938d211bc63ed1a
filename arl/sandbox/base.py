"""What goes into a sandbox, what comes out, and what a run may use.

A program's own failure is an Outcome. Where the sandbox itself fails there is
no outcome: it raises, so that nobody grades what never ran.
"""

import types
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

# What may end a program: a field of Limits that it reached.
SECONDS = 'seconds'
CPU = 'cpu'
MEMORY = 'memory'
INODES = 'inodes'
OUTPUT = 'output'
DISK = 'disk'  # more files than a session keeps

WORK = '/task'  # where a program starts
_NONE: Mapping[str, bytes] = types.MappingProxyType({})
_EMPTY: Mapping[str, str] = types.MappingProxyType({})


class Refused(Exception):
  """Untrusted code is not run here: there is nothing to isolate it with."""


class SandboxFailure(Exception):
  """The sandbox broke, so nothing is known of the program."""


class Program(NamedTuple):
  """What to run.

  Attributes:
    argv: the command. A pool starts it before it has files and stdin.
    files: path below the work directory -> content.
    stdin: what it reads.
    env: the whole environment.
    mounts: path inside -> path outside, read-only: a prepared base layer.
    wanted: files below the work directory to bring back.
  """

  argv: Sequence[str]
  files: Mapping[str, bytes] = _NONE
  stdin: bytes = b''
  env: Mapping[str, str] = _EMPTY
  mounts: Mapping[str, str] = _EMPTY
  wanted: Sequence[str] = ()


class Limits(NamedTuple):
  """What a program and all that it starts may use together.

  Attributes:
    seconds: from its input to its end.
    cpu: seconds of processors.
    memory: bytes; with cgroups those of files in /task, /tmp and /dev/shm, too.
    processes: at once, threads counted.
    disk: bytes of /task, of /tmp and of /dev/shm, and of a file.
    inodes: files, folders and links in each of them.
    output: bytes of stdout, of stderr and of each wanted file.
    open: file descriptors of a process.
  """

  seconds: float = 10.0
  cpu: float = 10.0
  memory: int = 512 << 20
  processes: int = 64
  disk: int = 64 << 20
  inodes: int = 10_000
  output: int = 1 << 20
  open: int = 256


DEFAULT = Limits()


def check(program: Program, limits: Limits) -> None:
  """Raises ValueError if there is no command, or a limit is none."""
  if not program.argv:
    raise ValueError('a program needs a command')
  for name, most in limits._asdict().items():
    if not most > 0:
      raise ValueError(f'limit {name} has to be positive, not {most}')


class Outcome(NamedTuple):
  """How a run went. All of it was seen or written by an untrusted program.

  None of it proves that a program is right: what it prints and its exit status
  are its own claims. Compare answers with what never was inside, as `calls`.

  Attributes:
    code: exit status as a shell tells it, 128 + n for signal n; None where a
      limit ended it.
    stdout, stderr: what it wrote, cut at the limit.
    limit: the field of Limits that ended it, or ''.
    files: wanted path -> content.
    refused: wanted path -> why it does not come back.
    seconds: from its input to its end.
    cpu: seconds of processors, those of pool's waiting among them; without a
      cgroup as last looked.
    memory: bytes at the peak; without a cgroup as far as looked.
  """

  code: int | None
  stdout: bytes
  stderr: bytes
  limit: str = ''
  files: Mapping[str, bytes] = _NONE
  refused: Mapping[str, str] = _EMPTY
  seconds: float = 0.0
  cpu: float = 0.0
  memory: int = 0


class Used(NamedTuple):
  """What a tree of processes used: CPU seconds, bytes, and whether too much."""

  cpu: float
  memory: int
  killed: bool


class Meter(Protocol):
  """Bounds a tree of processes and tells what it used."""

  def enter(self, pid: int) -> None:
    """Takes in a process, and so all that it starts from now on."""

  def used(self) -> Used:
    """What was used so far."""

  def close(self) -> None:
    """Forgets it; its processes have ended."""
