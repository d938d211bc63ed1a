"""What a tree of processes uses, as far as /proc tells: without cgroups.

It is looked at every few milliseconds, so a tree may pass its limits for that
long. CPU of a process that ended unseen counts where its parent waited for it.
"""

import os
import pathlib

from arl.sandbox import base

_TICK = os.sysconf('SC_CLK_TCK')
_KB = 1024


def tree(root: int) -> list[int]:
  """A process and its descendants, a parent before its children."""
  found = [root]
  for pid in found:
    try:
      for thread in os.listdir(f'/proc/{pid}/task'):
        text = pathlib.Path(f'/proc/{pid}/task/{thread}/children').read_text()
        found += [int(child) for child in text.split()]
    except OSError:  # it has ended
      continue
  return found


def _cpu(pid: int) -> float:
  """Seconds of a process and of its children that it waited for."""
  text = pathlib.Path(f'/proc/{pid}/stat').read_text()
  fields = text.rpartition(')')[2].split()
  return sum(int(field) for field in fields[11:15]) / _TICK


def _memory(pid: int) -> int:
  """Bytes that are in memory and in no file of a disk."""
  total = 0
  for line in pathlib.Path(f'/proc/{pid}/status').read_text().splitlines():
    if line.startswith(('RssAnon:', 'RssShmem:')):
      total += int(line.split()[1]) * _KB
  return total


class Tree:
  """Looks at what a tree uses; a base.Meter. Rlimits bound each process."""

  def __init__(self, limits: base.Limits):
    self._limits = limits
    self._root = 0
    self._cpu = 0.0
    self._peak = 0

  def enter(self, pid: int) -> None:
    self._root = pid

  def used(self) -> base.Used:
    cpu, memory = 0.0, 0
    for pid in tree(self._root) if self._root else ():
      try:
        cpu += _cpu(pid)
        memory += _memory(pid)
      except OSError:  # it has ended
        continue
    self._cpu = max(self._cpu, cpu)
    self._peak = max(self._peak, memory)
    return base.Used(self._cpu, self._peak, self._peak > self._limits.memory)

  def close(self) -> None:
    self._root = 0
