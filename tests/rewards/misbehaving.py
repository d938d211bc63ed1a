"""Verifiers that do what verifiers must not, for pools to survive."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time

from arl.rewards import verdict


def right():
  return 1.0


def same(value):
  return value


def raises():
  raise LookupError('no such gold')


def half():
  return verdict.scored(0.5, 'half of it')


def text():
  return 'yes'


def not_a_number():
  return float('nan')


def dies():
  os.kill(os.getpid(), signal.SIGKILL)


def leaves():
  sys.exit(3)


def sleeps():
  time.sleep(600)


def slow(seconds, value):
  time.sleep(seconds)
  return value


def works(seconds):
  """Uses the processor for so long, whoever else does."""
  start = time.process_time()
  while time.process_time() - start < seconds:
    pass
  return 1.0


def spins_in_c():
  signal.signal(signal.SIGTERM, signal.SIG_IGN)
  return len(str(9 ** (9**9)))


def backtracks():
  return float(bool(re.match(r'(a+)+$', 'a' * 60 + 'b')))


def eats():
  return float(len(b'x' * (8 << 30)))


def recurses():
  return recurses()


def has_children(folder):
  """A child, one in a session of its own, and one whose parent is gone."""
  sleep = [sys.executable, '-c', 'import time; time.sleep(600)']
  orphan = (
    'import subprocess, sys; print(subprocess.Popen(sys.argv[1:],'
    ' start_new_session=True, stdout=subprocess.DEVNULL).pid)'
  )
  made = [
    subprocess.Popen(sleep).pid,
    subprocess.Popen(sleep, start_new_session=True).pid,
    int(subprocess.check_output([sys.executable, '-c', orphan, *sleep])),
  ]
  pathlib.Path(folder, 'pids').write_text(' '.join(map(str, made)))
  time.sleep(600)


def dies_with_children(folder):
  child = subprocess.Popen(
    [sys.executable, '-c', 'import time; time.sleep(600)']
  )
  pathlib.Path(folder, 'pids').write_text(str(child.pid))
  os.kill(os.getpid(), signal.SIGKILL)


def breaks_at_start():
  raise RuntimeError('cannot start')
