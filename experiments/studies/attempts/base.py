"""What an attempt at the sandbox is.

An attempt is a program that says ESCAPED when it got something that it should
not. What it says is only half: whoever runs it looks at the world outside, too.
"""

from collections.abc import Mapping
from typing import NamedTuple

from arl.sandbox import base

LIMITS = base.Limits(
  seconds=1.0,
  cpu=0.7,
  memory=128 << 20,
  processes=24,
  disk=8 << 20,
  inodes=2000,
  output=100_000,
)
# Where an attempt ends by itself, or by another limit, on a busy machine too.
PATIENT = LIMITS._replace(seconds=10.0, cpu=5.0)
PRELUDE = """
import ctypes, os, resource, signal, socket, stat, subprocess, sys, threading
import time
libc = ctypes.CDLL(None, use_errno=True)
env = os.environ
victim, port = int(env['VICTIM']), int(env['PORT'])
def ask(what, do):
  try:
    made = do()
  except BaseException as error:
    print('held:', what, repr(error)[:80])
  else:
    print('ESCAPED:', what, repr(made)[:80])
  sys.stdout.flush()
def c(name, *arguments):
  ctypes.set_errno(0)
  function = getattr(libc, name)
  function.restype = ctypes.c_long if name == 'syscall' else ctypes.c_int
  made = function(*arguments)
  if made == -1:
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
  return made
def put(path, data):
  made = os.open(path, os.O_WRONLY)
  os.write(made, data)
def spin():
  while True:
    pass
"""


class Attempt(NamedTuple):
  """A program that tries something.

  Attributes:
    does: what it tries, in words.
    source: Python, after PRELUDE.
    ends: how it may end: fields of Limits and exit statuses; () for any way.
    wanted: files that are asked for.
    given: files that it may hand out; the other wanted ones are refused.
    stdin: what it gets to read.
    times: how often it runs, each time in a new sandbox.
  """

  does: str
  source: str
  ends: tuple[str, ...] = ()
  wanted: tuple[str, ...] = ()
  given: tuple[str, ...] = ()
  stdin: bytes = b''
  times: int = 1

  @property
  def limits(self) -> base.Limits:
    """What it may use."""
    return LIMITS if 'seconds' in self.ends else PATIENT


class Forgery(NamedTuple):
  """A source that wants to be right without knowing the answer.

  It should define f, which is called with a list of numbers and whose answer is
  compared with their sum outside.

  Attributes:
    does: what it tries, in words.
    source: Python.
  """

  does: str
  source: str


Attempts = Mapping[str, Attempt]
