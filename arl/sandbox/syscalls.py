"""A filter of system calls, as bwrap takes it: a program for the kernel's BPF.

Built by libseccomp, which knows the numbers of every architecture. It refuses
what a program that only computes does not need: more namespaces, mounts, other
processes' memory, the kernel's keys, BPF, io_uring, clocks, and all sockets but
those of the sandbox itself (an AF_VSOCK one would pass any network namespace).
It refuses memory that no process is seen to hold, too: memfd and System V.
"""

import ctypes
import errno
import functools
import os
import socket
import tempfile

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EQ, _GT, _MASKED = 4, 6, 7
_NEW_USER = 0x10000000
_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
_DENIED = """
  unshare setns mount umount umount2 pivot_root chroot open_tree move_mount
  fsopen fsconfig fsmount fspick mount_setattr ptrace process_vm_readv
  process_vm_writev process_madvise kcmp pidfd_getfd bpf perf_event_open
  userfaultfd io_uring_setup io_uring_enter io_uring_register keyctl add_key
  request_key kexec_load kexec_file_load init_module finit_module
  delete_module swapon swapoff reboot settimeofday clock_settime
  clock_settime64 clock_adjtime clock_adjtime64 adjtimex stime acct quotactl
  quotactl_fd syslog sethostname setdomainname iopl ioperm name_to_handle_at
  open_by_handle_at fanotify_init personality lookup_dcookie nfsservctl
  vhangup memfd_create memfd_secret shmget msgget semget mq_open mbind
  migrate_pages move_pages
"""


class _Compare(ctypes.Structure):
  _fields_ = [
    ('argument', ctypes.c_uint),
    ('how', ctypes.c_int),
    ('a', ctypes.c_uint64),
    ('b', ctypes.c_uint64),
  ]


def _library() -> ctypes.CDLL:
  made = ctypes.CDLL('libseccomp.so.2')
  made.seccomp_init.restype = ctypes.c_void_p
  made.seccomp_init.argtypes = [ctypes.c_uint32]
  made.seccomp_rule_add_array.argtypes = [
    ctypes.c_void_p,
    ctypes.c_uint32,
    ctypes.c_int,
    ctypes.c_uint,
    ctypes.POINTER(_Compare),
  ]
  made.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]
  made.seccomp_release.argtypes = [ctypes.c_void_p]
  return made


def _rules() -> list[tuple[str, int, list[_Compare]]]:
  """(name, error, condition on the first argument) of what is refused."""
  rules: list[tuple[str, int, list[_Compare]]] = [
    (name, errno.EPERM, []) for name in _DENIED.split()
  ]
  # clone3 hides its flags in memory; without it libraries take clone.
  rules.append(('clone3', errno.ENOSYS, []))
  new_user = _Compare(0, _MASKED, _NEW_USER, _NEW_USER)
  rules.append(('clone', errno.EPERM, [new_user]))
  last = max(_FAMILIES)
  for name in ('socket', 'socketpair'):
    rules.append((name, errno.EPERM, [_Compare(0, _GT, last, 0)]))
    for family in set(range(last)) - set(_FAMILIES):
      rules.append((name, errno.EPERM, [_Compare(0, _EQ, family, 0)]))
  return rules


@functools.cache
def program() -> bytes:
  """The filter.

  Raises:
    OSError: libseccomp is missing or does not want it.
  """
  library = _library()
  context = library.seccomp_init(_ALLOW)
  try:
    for name, error, conditions in _rules():
      number = library.seccomp_syscall_resolve_name(name.encode())
      if number == -1:  # this libseccomp is older than the call
        continue
      status = library.seccomp_rule_add_array(
        context,
        _ERRNO | error,
        number,
        len(conditions),
        (_Compare * len(conditions))(*conditions),
      )
      if status < 0:
        raise OSError(-status, f'libseccomp does not filter {name}')
    with tempfile.TemporaryFile() as file:
      status = library.seccomp_export_bpf(context, file.fileno())
      if status < 0:
        raise OSError(-status, 'libseccomp exports no filter')
      file.seek(0)
      return file.read()
  finally:
    library.seccomp_release(context)


def descriptor() -> int:
  """A new file that holds the filter, to be read from its start."""
  made = os.memfd_create('filter')
  os.write(made, program())
  os.lseek(made, 0, os.SEEK_SET)
  return made
