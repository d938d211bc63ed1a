"""What this machine can isolate untrusted code with, or that it cannot."""

import functools
import logging
import os
import re
import shutil
import subprocess
from typing import NamedTuple

from arl.sandbox import base, cgroups, processes, syscalls

_OLDEST = (0, 8)
_INSTALL = 'apt-get install bubblewrap libseccomp2'
_ASK = (
  'Or run it unprotected, as this user and with all that this user can read'
  ' and reach, by passing unsafe_without_isolation=True.'
)


class Isolation(NamedTuple):
  """How programs are kept in.

  Attributes:
    bwrap: the path of bubblewrap, or '' for none: rlimits alone.
    root: whether this process is root, so that programs become another user.
    home: where cgroups are made, or None: their sums are looked at instead.
  """

  bwrap: str
  root: bool
  home: cgroups.Home | None

  @property
  def promise(self) -> str:
    """What holds, in words."""
    if not self.bwrap:
      return 'no isolation: rlimits of each process, this user, this network'
    who = 'a user of its own' if self.root else 'a user namespace of this user'
    sums = (
      'cgroups: sums are exact'
      if self.home
      else 'rlimits of each process; sums of memory, CPU and inodes are looked '
      'at every few milliseconds'
    )
    return f'namespaces and a filter of system calls, {who}; {sums}'


def meter(isolation: Isolation, limits: base.Limits) -> base.Meter:
  """What bounds and counts one run."""
  if isolation.home is not None:
    return cgroups.Group(isolation.home, limits)
  return processes.Tree(limits)


def find(unsafe_without_isolation: bool = False) -> Isolation:
  """How to run untrusted code on this machine.

  Args:
    unsafe_without_isolation: run it even if nothing can isolate it.

  Raises:
    base.Refused: nothing can, and that was not allowed.
  """
  try:
    return _isolated()
  except base.Refused as error:
    if not unsafe_without_isolation:
      raise
    _warn(str(error))
    return Isolation('', os.geteuid() == 0, None)


@functools.cache
def _warn(why: str) -> None:
  logging.getLogger(__name__).warning(
    'untrusted code runs WITHOUT isolation, by rlimits alone: %s', why
  )


@functools.cache
def _isolated() -> Isolation:
  bwrap, root = shutil.which('bwrap'), os.geteuid() == 0
  if bwrap is None or (root and shutil.which('setpriv') is None):
    what = 'bwrap' if bwrap is None else 'setpriv (util-linux)'
    raise base.Refused(f'{what} is missing. Install it: {_INSTALL}. {_ASK}')
  told = subprocess.run([bwrap, '--version'], capture_output=True, text=True)
  found = re.search(r'(\d+)\.(\d+)', told.stdout)
  if found is None or tuple(map(int, found.groups())) < _OLDEST:
    raise base.Refused(f'bubblewrap 0.8 is needed, not {told.stdout!r}. {_ASK}')
  try:
    syscalls.program()
  except OSError as error:
    raise base.Refused(
      f'no filter of system calls: {error}. Install it: {_INSTALL}. {_ASK}'
    ) from error
  _try(bwrap)
  return Isolation(bwrap, root, cgroups.home())


def _try(bwrap: str) -> None:
  """Makes each namespace once."""
  made = subprocess.run(
    [bwrap, '--unshare-all', '--ro-bind', '/', '/', '--proc', '/proc', 'true'],
    capture_output=True,
    text=True,
  )
  if made.returncode:
    raise base.Refused(
      f'bubblewrap makes no namespaces here: {made.stderr.strip()}. In a'
      ' container, allow them (docker: --privileged, or --cap-add SYS_ADMIN'
      ' with seccomp and AppArmor unconfined and /proc unmasked); for users,'
      f' allow user namespaces (sysctl user.max_user_namespaces). {_ASK}'
    )
