"""Memory that was freed is kept for what needs it next.

XLA on a CPU takes the temporary arrays of a call as one block and frees it
after. The C library of Linux gives a block of that size back to the kernel at
once, and the next call waits for the kernel to clear its pages: a fourth of an
update of the quickstart. A process that keeps it holds what it needed at most,
which it will need again.
"""

import ctypes
import sys

# Numbers of malloc.h, and the largest that mallopt takes.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX, _MOST = -1, -3, -8, 2**31 - 1


def keep() -> bool:
  """Keeps freed memory; whether the C library can be told to.

  A thread's own arena holds no large block, so there is one arena.
  """
  if not sys.platform.startswith('linux'):
    return False
  mallopt = getattr(ctypes.CDLL(None), 'mallopt', None)
  if mallopt is None:  # another library than glibc
    return False
  wanted = (_ARENA_MAX, 1), (_TRIM_THRESHOLD, _MOST), (_MMAP_THRESHOLD, _MOST)
  taken = [mallopt(name, value) for name, value in wanted]
  return all(taken)
