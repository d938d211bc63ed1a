"""What a tree of processes uses, bounded and counted by the kernel: cgroups.

A group lies below the one this process is in, so what bounds this process
bounds it too. Version 1 has a folder for each controller, version 2 one for
all; there a group may not have processes of its own beside groups that are
bounded, so the nearest group above that hands its controllers down is taken.
"""

import contextlib
import functools
import itertools
import os
import pathlib
import signal
import time
from typing import NamedTuple

from arl.sandbox import base

_NEEDED = ('memory', 'pids', 'cpuacct')
_PREFIX = 'arl-'
_PATIENCE = 5.0
_count = itertools.count()


class Home(NamedTuple):
  """Where groups are made.

  Attributes:
    version: 1 or 2.
    folders: one of each controller of version 1, or one.
  """

  version: int
  folders: tuple[pathlib.Path, ...]


def _mounts() -> dict[str, tuple[pathlib.Path, str]]:
  """Controller, or '' for version 2 -> (mount, what of the tree it shows)."""
  found = {}
  for line in pathlib.Path('/proc/self/mountinfo').read_text().splitlines():
    fields, _, rest = line.partition(' - ')
    kind, _, options = rest.split(' ', 2)
    root, mount = fields.split()[3:5]
    if kind == 'cgroup2':
      found[''] = (pathlib.Path(mount), root)
    elif kind == 'cgroup':
      for name in options.split(','):
        found[name] = (pathlib.Path(mount), root)
  return found


def _own() -> dict[str, str]:
  """Controller, or '' for version 2 -> the group this process is in."""
  found = {}
  for line in pathlib.Path('/proc/self/cgroup').read_text().splitlines():
    _, names, path = line.split(':', 2)
    found.update(dict.fromkeys(names.split(','), path))
  return found


def _folder(mount: tuple[pathlib.Path, str], path: str) -> pathlib.Path:
  where, root = mount
  return where / os.path.relpath(path, root)


def _candidates() -> list[Home]:
  mounts, own = _mounts(), _own()
  if all(name in mounts and name in own for name in _NEEDED):
    folders = tuple(_folder(mounts[name], own[name]) for name in _NEEDED)
    return [Home(1, folders)]
  if '' not in mounts or '' not in own:
    return []
  top, first = mounts[''][0], _folder(mounts[''], own[''])
  above = [first, *(each for each in first.parents if each.is_relative_to(top))]
  return [Home(2, (each,)) for each in above if _hands_down(each)]


def _hands_down(folder: pathlib.Path) -> bool:
  try:
    names = (folder / 'cgroup.subtree_control').read_text().split()
  except OSError:
    return False
  return {'memory', 'pids'} <= set(names)


@functools.cache
def home() -> Home | None:
  """Where this process can make groups, or None; removes dead ones there."""
  for candidate in _candidates():
    try:
      _sweep(candidate)
      trial = Group(candidate, base.Limits())
    except OSError:
      continue
    child = os.posix_spawn('/bin/sleep', ['sleep', '60'], {})
    try:
      trial.enter(child)
      return candidate
    except OSError:
      continue
    finally:
      os.kill(child, signal.SIGKILL)
      os.waitpid(child, 0)
      trial.close()
  return None


def _sweep(at: Home) -> None:
  """Ends and removes groups whose maker was killed."""
  for folder in at.folders:
    for left in folder.glob(f'{_PREFIX}*-*'):
      maker = left.name.removeprefix(_PREFIX).partition('-')[0]
      if maker.isdigit() and not os.path.exists(f'/proc/{maker}'):
        for pid in (left / 'cgroup.procs').read_text().split():
          with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
        _remove(left)


def _remove(folder: pathlib.Path) -> None:
  """Waits until the kernel has let go of a group whose processes ended."""
  end = time.monotonic() + _PATIENCE
  while True:
    try:
      folder.rmdir()
      return
    except FileNotFoundError:
      return
    except OSError:
      if time.monotonic() > end:
        raise
      time.sleep(0.001)


def _fields(path: pathlib.Path) -> dict[str, int]:
  """A file of `name number` lines."""
  lines = [line.split() for line in path.read_text().splitlines()]
  return {name: int(value) for name, value in lines if value.isdigit()}


class Group:
  """A group of one run; a base.Meter."""

  def __init__(self, at: Home, limits: base.Limits):
    name = f'{_PREFIX}{os.getpid()}-{next(_count)}'
    self._version = at.version
    self._folders = [folder / name for folder in at.folders]
    try:
      for folder in self._folders:
        folder.mkdir()
      self._bound(limits)
    except OSError:
      self.close()
      raise

  def _bound(self, limits: base.Limits) -> None:
    memory, last = self._folders[0], self._folders[-1]
    if self._version == 2:
      (memory / 'memory.max').write_text(f'{limits.memory}')
      (memory / 'memory.oom.group').write_text('1')
      swap = memory / 'memory.swap.max'
      if swap.exists():
        swap.write_text('0')
      (last / 'pids.max').write_text(f'{limits.processes + 1}')
      return
    for limit in ('memory.limit_in_bytes', 'memory.memsw.limit_in_bytes'):
      if (memory / limit).exists():
        (memory / limit).write_text(f'{limits.memory}')
    (self._folders[1] / 'pids.max').write_text(f'{limits.processes + 1}')

  def enter(self, pid: int) -> None:
    for folder in self._folders:
      (folder / 'cgroup.procs').write_text(f'{pid}')

  def used(self) -> base.Used:
    memory, last = self._folders[0], self._folders[-1]
    if self._version == 2:
      peak = memory / 'memory.peak'  # Linux 5.19
      now = peak if peak.exists() else memory / 'memory.current'
      killed = _fields(memory / 'memory.events')['oom_kill']
      cpu = _fields(last / 'cpu.stat')['usage_usec'] / 1e6
    else:
      now = memory / 'memory.max_usage_in_bytes'
      killed = _fields(memory / 'memory.oom_control').get('oom_kill', 0)
      cpu = int((last / 'cpuacct.usage').read_text()) / 1e9
    return base.Used(cpu, int(now.read_text()), killed > 0)

  def close(self) -> None:
    for folder in self._folders:
      _remove(folder)
