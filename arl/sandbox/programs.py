"""Programs that read what they run from stdin, so that a pool can start them.

The source comes first on stdin, its length before it; what follows is for the
program. Nothing untrusted is in the command.
"""

from collections.abc import Mapping

from arl.sandbox import base, bubblewrap

_EMPTY = base.Program(())
# A Python that reads nothing but its source and the standard library.
PYTHON = (bubblewrap.python(), '-I', '-S', '-B', '-c')
# Unbuffered, so that the program finds what follows.
_PYTHON = """
import os, sys
def take(n):
  data = b''
  while len(data) < n:
    data += os.read(0, n - len(data)) or sys.exit('no source')
  return data
name = take(16)
main = type(sys)('__main__')
main.__dict__['__builtins__'] = __builtins__
sys.modules['__main__'] = main
sys.argv = ['program']
sys.path.insert(0, '')
exec(compile(take(int(name)), 'program', 'exec'), main.__dict__)
"""


def python(
  source: str,
  stdin: bytes = b'',
  files: Mapping[str, bytes] = _EMPTY.files,
  mounts: Mapping[str, str] = _EMPTY.mounts,
) -> base.Program:
  """A Python program, with the standard library and the work directory.

  What it defines is in the module `__main__`. A pool for such programs is made
  of any of them.

  Args:
    source: its text.
    stdin: what it reads.
    files: path below the work directory -> content.
    mounts: path inside -> path outside, read-only.
  """
  text = source.encode()
  head = f'{len(text):16d}'.encode()
  return base.Program(
    (*PYTHON, _PYTHON), files, head + text + stdin, mounts=mounts
  )


def fields(*texts: str) -> bytes:
  """Texts as the shell's `read -d ''` takes them.

  Raises:
    ValueError: one holds a NUL.
  """
  if any('\0' in text for text in texts):
    raise ValueError('a shell takes no text with a NUL in it')
  return b''.join(text.encode() + b'\0' for text in texts)
