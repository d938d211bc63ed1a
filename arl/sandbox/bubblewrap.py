"""The command line of bubblewrap for one sandbox.

Its first process is a shell of ours, the gate: it writes a line when all mounts
are made, waits for a line on stdin, and then starts the program. As it is the
first process of its PID namespace, the kernel ends all others with it, and no
signal from inside ends it. Nobody but the gate has run when it says ready.

Run by root, bwrap makes the namespaces as root, and behind the gate the program
becomes a user of its own, with no capability in any user namespace. The gate
stays root: bwrap, which has no capabilities left, could not end another user's
process when the harness is killed. Run by another user, all lies in a new user
namespace that maps this user alone.
"""

import os
import pathlib
import sys
from collections.abc import Mapping, Sequence

from arl.sandbox import base

GATE = (
  '/bin/sh',
  '-c',
  'echo; read -r go || exit; trap : INT; exec 9>&2 2>/dev/null; '
  '("$@" 2>&9 9>&-); exit $?',
  'gate',
)
WRITABLE = (base.WORK, '/tmp', '/dev/shm')
_NAMESPACES = (
  '--unshare-ipc', '--unshare-pid', '--unshare-net', '--unshare-uts',
  '--unshare-cgroup-try', '--die-with-parent', '--new-session', '--as-pid-1',
  '--hostname', 'sandbox', '--clearenv', '--cap-drop', 'ALL',
)  # fmt: skip
_BECOME = ('CAP_SETUID', 'CAP_SETGID', 'CAP_SETPCAP')
_DEVICES = ('null', 'zero', 'full', 'random', 'urandom')
_LINKS = {'fd': 'fd', 'stdin': 'fd/0', 'stdout': 'fd/1', 'stderr': 'fd/2'}
_SYSTEM = ('/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32')
_SHARED = ('/etc/ld.so.cache', '/etc/alternatives')


def python() -> str:
  """The Python that programs run, without packages of others."""
  name = f'python{sys.version_info.major}.{sys.version_info.minor}'
  return str(pathlib.Path(sys.base_prefix).resolve() / 'bin' / name)


def environment(env: Mapping[str, str]) -> tuple[str, ...]:
  """The command that gives a program its whole environment, and nothing else.

  The gate and bwrap never see it.

  Raises:
    ValueError: a name or value cannot be set.
  """
  for name, value in env.items():
    if not name or '=' in name or '\0' in name + value:
      raise ValueError(f'{name!r} is no variable of an environment')
  full = {'PATH': '/usr/bin:/bin', 'HOME': base.WORK, 'LANG': 'C.UTF-8', **env}
  settings = [f'{name}={value}' for name, value in full.items()]
  return ('/usr/bin/env', '-i', '--', *settings)


def rlimits(limits: base.Limits, alone: bool, sums: bool) -> tuple[str, ...]:
  """The command that bounds each process.

  Args:
    limits: what all may use.
    alone: whether no other process has the program's user, in its namespace.
    sums: whether something else bounds the sum of memory.
  """
  each = {
    'cpu': int(limits.cpu) + 2,
    'fsize': limits.disk,
    'nofile': limits.open,
    'core': 1,  # 0 would still start a handler of the host
    'memlock': 0,
    'msgqueue': 0,
    'sigpending': 1024,
  }
  if alone:
    each['nproc'] = limits.processes + 1
  if not sums:
    each['data'] = limits.memory
  bounds = [f'--{name}={most}' for name, most in each.items()]
  return ('/usr/bin/prlimit', *bounds, '--')


def _system() -> list[str]:
  """The programs of this system, read-only, and the Python."""
  made = []
  for path in map(pathlib.Path, _SYSTEM):
    if path.is_symlink():
      made += ['--symlink', os.readlink(path), str(path)]
    elif path.exists():
      made += ['--ro-bind', str(path), str(path)]
  for name in _SHARED:
    made += ['--ro-bind-try', name, name]
  prefix = str(pathlib.Path(sys.base_prefix).resolve())
  if not prefix.startswith('/usr/') and prefix != '/usr':
    made += bind(prefix, prefix)
  return made


def bind(source: str, target: str) -> list[str]:
  """Shows a file or folder read-only, below folders that all may enter."""
  above = [str(each) for each in reversed(pathlib.Path(target).parents)][1:]
  made = [each for path in above for each in ('--perms', '0755', '--dir', path)]
  return [*made, '--ro-bind', source, target]


def _places(disk: int, names: tuple[int, int]) -> list[str]:
  """/proc, /dev, /etc and the folders that may be written."""
  made = ['--proc', '/proc']
  for folder in ('/dev', '/etc'):
    made += ['--perms', '0755', '--dir', folder]
  for name in _DEVICES:
    made += ['--dev-bind', f'/dev/{name}', f'/dev/{name}']
  for name, target in _LINKS.items():
    made += ['--symlink', f'/proc/self/{target}', f'/dev/{name}']
  for name, file in zip(('passwd', 'group'), names):
    made += ['--perms', '0644', '--file', str(file), f'/etc/{name}']
  for place in WRITABLE:
    made += ['--perms', '1777', '--size', str(disk), '--tmpfs', place]
  return made


def command(
  bwrap: str,
  mounts: Mapping[str, str],
  behind: Sequence[str],
  disk: int,
  user: int | None,
  descriptors: Mapping[str, int],
) -> Sequence[str]:
  """What to start.

  Args:
    bwrap: the path of bubblewrap.
    mounts: path inside -> path outside, read-only.
    behind: what the gate starts.
    disk: bytes of each folder that may be written.
    user: whom the program becomes, where this process is root; else None.
    descriptors: 'info', 'filter', 'passwd' and 'group', open files for bwrap.
  """
  made = [bwrap, *_NAMESPACES, '--info-fd', str(descriptors['info'])]
  made += ['--seccomp', str(descriptors['filter'])]
  if user is None:
    made += ['--unshare-user', '--uid', '1000', '--gid', '1000']
  else:
    made += [each for name in _BECOME for each in ('--cap-add', name)]
  made += _places(disk, (descriptors['passwd'], descriptors['group']))
  made += _system()
  for target, source in mounts.items():
    made += bind(source, target)
  made += ['--remount-ro', '/', '--chdir', base.WORK, *GATE]
  if user is not None:
    made += ['/usr/bin/setpriv', f'--reuid={user}', f'--regid={user}']
    made += ['--clear-groups', '--inh-caps=-all', '--bounding-set=-all', '--']
  return [*made, *behind]
