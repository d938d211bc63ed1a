"""The sandbox of a user without privileges, tried by a root that becomes one.

That user gets a copy of what it needs, and a Python that it may read.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).parents[2]
_USER = 1_800_000_001
_SCRIPT = """
import functools
from arl.sandbox import isolation, runs
from experiments.studies.attempts import base, forgeries, outside, resources
from experiments.studies.attempts import world
print(isolation.find().promise)
attempts = {**resources.ATTEMPTS, **outside.ATTEMPTS}
start = functools.partial(runs.start, limits=base.PATIENT)
with world.make() as aim:
  for name in NAMES:
    found, outcome = world.attempt(attempts[name], aim)
    assert not found + world.left(aim), (name, found, outcome)
  honest = base.Forgery('answers', 'def f(numbers): return sum(numbers)')
  assert world.forge(honest, start, 0)[0]
  assert world.left(aim) == []
print('held')
"""
_NAMES = (
  'fork bomb', 'memory of many', 'shared memory', 'disk', 'inodes', 'daemon',
  'limits raised', 'kill of others', 'ptrace', '/proc of the host',
  '/proc written', 'secrets', 'inherited descriptors', 'system written',
  'base layer written', 'link as output', 'folder as output', 'setuid programs',
  'mount', 'namespaces', 'kernel', 'tcp', 'unix sockets', 'other sockets',
)  # fmt: skip


def _runs(python):
  """Whether the user can run a Python that is new enough."""
  test = 'import sys; sys.exit(sys.version_info < (3, 11))'
  command = [python, '-c', test]
  try:
    done = subprocess.run(
      command, user=_USER, group=_USER, extra_groups=[], cwd='/'
    )
  except OSError:
    return False
  return done.returncode == 0


def test_attempts_fail_for_a_user(isolated):
  if not isolated.root:
    pytest.skip('the other tests run as a user already')
  pythons = [sys.executable, '/usr/bin/python3', '/usr/local/bin/python3']
  python = next(filter(_runs, pythons), None)
  if python is None:
    pytest.skip('NOT TESTED: no Python that another user could read')
  with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    for part in ('arl/sandbox', 'experiments/studies/attempts'):
      shutil.copytree(ROOT / part, folder / part)
    for part in ('arl', 'experiments', 'experiments/studies'):
      (folder / part / '__init__.py').touch()
    (folder / 'script.py').write_text(f'NAMES = {_NAMES}\n{_SCRIPT}')
    subprocess.run(['chmod', '-R', 'a+rX', name], check=True)
    done = subprocess.run(
      [python, '-B', 'script.py'],
      user=_USER,
      group=_USER,
      extra_groups=[],
      cwd=name,
      env={'PATH': os.environ['PATH'], 'HOME': '/nonexistent'},
      capture_output=True,
      text=True,
    )
  if 'Refused' in done.stderr and 'namespaces' in done.stderr:
    pytest.skip(f'NOT TESTED: users may not isolate here: {done.stderr[-300:]}')
  assert done.stdout.endswith('held\n'), done.stdout + done.stderr
  assert 'a user namespace of this user' in done.stdout
