"""A verifier that ends for nobody: worker processes import it by name."""

import re
import signal


def ignores():
  """Works in C, where no signal is looked at, and ignores SIGTERM."""
  signal.signal(signal.SIGTERM, signal.SIG_IGN)
  return re.match(r'(a+)+$', 'a' * 64 + 'b') is None


def raises():
  raise LookupError('no such gold')


def right():
  return 1.0
