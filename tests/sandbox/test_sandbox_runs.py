"""What a program gets, what comes back, and who is to blame."""

import os
import shutil
import subprocess
import sys
import threading
import time

import pytest

from arl.sandbox import (
  base,
  box,
  bubblewrap,
  cgroups,
  isolation,
  launch,
  processes,
  programs,
  runs,
  syscalls,
)

LIMITS = base.Limits(seconds=20.0, memory=128 << 20)
pytestmark = pytest.mark.usefixtures('isolated')


def _shell(text, **more):
  return base.Program(('/bin/sh', '-c', text), **more)


def test_a_program_gets_what_it_was_given():
  program = _shell(
    'cat; cat a/b/c; printf "$X"; pwd; printf out > a/o; echo err >&2; exit 3',
    files={'a/b/c': b'file ', 'a/d': b''},
    stdin=b'stdin ',
    env={'X': 'variable '},
    wanted=('a/o', 'nothing'),
  )
  outcome = runs.run(program, LIMITS)
  assert outcome.stdout == b'stdin file variable /task\n'
  assert outcome.stderr == b'err\n' and outcome.code == 3
  assert outcome.files == {'a/o': b'out'} and not outcome.limit
  assert outcome.refused == {'nothing': 'No such file or directory'}
  assert 0 < outcome.seconds < 20 and outcome.memory > 0


def test_the_environment_is_whole():
  outcome = runs.run(base.Program(('/usr/bin/env',), env={'A': '1'}), LIMITS)
  assert sorted(outcome.stdout.decode().split()) == [
    'A=1', 'HOME=/task', 'LANG=C.UTF-8', 'PATH=/usr/bin:/bin',
  ]  # fmt: skip


@pytest.mark.parametrize(
  'text, code',
  [('exit 0', 0), ('exit 77', 77), ('kill -9 $$', 137), ('nonsense', 127)],
)
def test_exit_statuses_are_a_shells(text, code):
  assert runs.run(_shell(text), LIMITS).code == code


def test_a_signal_says_nothing_on_stderr():
  assert runs.run(_shell('kill -SEGV $$'), LIMITS).stderr == b''


def test_python_programs_read_their_stdin_and_know_their_main():
  source = """
import pickle, sys
class A: pass
print(sys.argv, __name__, type(pickle.loads(pickle.dumps(A()))).__name__)
print(sys.stdin.read())
import helper
print(helper.x)
"""
  files = {'helper.py': b'x = 7'}
  outcome = runs.run(programs.python(source, b'more', files), LIMITS)
  assert outcome.stdout == b"['program'] __main__ A\nmore\n7\n", outcome


def test_sources_that_are_no_python_are_the_programs_failure():
  outcome = runs.run(programs.python('def'), LIMITS)
  assert outcome.code == 1 and b'SyntaxError' in outcome.stderr


def test_much_output_below_the_limit_is_whole():
  outcome = runs.run(programs.python("print('x' * 999_999)"), LIMITS)
  assert outcome.stdout == b'x' * 999_999 + b'\n' and outcome.code == 0


def test_all_of_a_long_stdin_arrives():
  outcome = runs.run(_shell('wc -c', stdin=b'x' * 3_000_000), LIMITS)
  assert outcome.stdout.strip() == b'3000000'


@pytest.mark.parametrize(
  'name', ['/etc/x', '../x', 'a/../../x', '', '.', 'a\0']
)
def test_names_stay_in_the_work_directory(name):
  with pytest.raises(ValueError, match='no path below'):
    runs.run(_shell('true', files={name: b''}), LIMITS)


def test_files_that_do_not_fit_are_the_callers_mistake():
  given = {'x': b'x' * (1 << 20)}
  with pytest.raises(ValueError, match='do not fit'):
    runs.run(_shell('true', files=given), LIMITS._replace(disk=1 << 16))


@pytest.mark.parametrize('env', [{'': '1'}, {'A=B': '1'}, {'A': '\0'}])
def test_variables_have_names(env):
  with pytest.raises(ValueError, match='no variable'):
    runs.run(_shell('true', env=env), LIMITS)


@pytest.mark.parametrize('name', base.Limits._fields)
def test_limits_are_positive(name):
  with pytest.raises(ValueError, match=f'limit {name}'):
    runs.run(_shell('true'), LIMITS._replace(**{name: 0}))


def test_a_program_needs_a_command():
  with pytest.raises(ValueError, match='needs a command'):
    runs.run(base.Program(()), LIMITS)


def test_a_sandbox_that_does_not_start_is_no_outcome(tmp_path):
  missing = {'/base': str(tmp_path / 'missing')}
  with pytest.raises(base.SandboxFailure, match='missing'):
    runs.run(_shell('true', mounts=missing), LIMITS)


def test_a_tool_that_fails_is_no_outcome():
  how = isolation.find()._replace(bwrap='/bin/false')
  with pytest.raises(base.SandboxFailure, match='did not start'):
    box.Box(_shell('true'), LIMITS, how)


def test_a_fork_that_fails_is_no_outcome(monkeypatch):
  def refuse(*args, **kwargs):
    raise BlockingIOError(11, 'Resource temporarily unavailable')

  monkeypatch.setattr(subprocess, 'Popen', refuse)
  with pytest.raises(base.SandboxFailure, match='temporarily unavailable'):
    box.Box(_shell('true'), LIMITS, isolation.find())


def test_bwrap_that_is_killed_is_no_outcome():
  made = box.Box(_shell('sleep 60'), LIMITS, isolation.find())
  threading.Timer(0.3, made._process.kill).start()
  try:
    with pytest.raises(base.SandboxFailure, match='signal 9'):
      made.run(b'')
  finally:
    made.close()


def test_a_harness_that_is_killed_leaves_nothing():
  code = (
    'from arl.sandbox import base, runs\n'
    "runs.run(base.Program(('/bin/sh', '-c', 'setsid sleep 4711 & "
    "sleep 4711')), base.Limits(seconds=60))"
  )
  harness = subprocess.Popen([sys.executable, '-c', code])
  _wait(lambda: len(_sleepers()) == 2)
  harness.kill()
  harness.wait()
  _wait(lambda: not _sleepers())


def _sleepers():
  listed = subprocess.run(['ps', 'axo', 'args'], capture_output=True, text=True)
  return [line for line in listed.stdout.splitlines() if line == 'sleep 4711']


def _wait(condition):
  end = time.monotonic() + 60
  while not condition():
    assert time.monotonic() < end
    time.sleep(0.05)


def test_without_cgroups_sums_are_looked_at():
  how = isolation.find()._replace(home=None)
  source = 'import os\nos.fork()\nx = b"x" * (90 << 20)\nwhile 1: pass'
  program = programs.python(source)
  made = box.Box(program, LIMITS._replace(cpu=2.0), how)
  assert runs.finish(made, program).limit == base.MEMORY
  assert 'looked' in how.promise


def test_the_tree_of_a_process():
  child = subprocess.Popen(['sh', '-c', 'sleep 60 & sleep 60 & wait'])
  try:
    _wait(lambda: len(processes.tree(child.pid)) == 3)
    meter = processes.Tree(LIMITS)
    meter.enter(child.pid)
    assert 0 < meter.used().memory < 1 << 26 and not meter.used().killed
  finally:
    for pid in reversed(processes.tree(child.pid)):
      os.kill(pid, 9)
    child.wait()


def test_runs_from_many_threads_do_not_meet():
  outcomes = {}

  def work(i):
    program = _shell(f'echo {i} > /tmp/x; sleep 0.1; cat /tmp/x')
    outcomes[i] = runs.run(program, LIMITS).stdout

  threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
  for each in threads:
    each.start()
  for each in threads:
    each.join()
  assert outcomes == {i: f'{i}\n'.encode() for i in range(6)}


def test_users_of_sandboxes_differ():
  assert len({launch._user() for _ in range(100)}) == 100
  assert os.getuid() not in launch.users()


def test_the_filter_is_a_program_of_the_kernels():
  assert len(syscalls.program()) % 8 == 0 and len(syscalls.program()) > 400


def test_an_own_python_is_there():
  program = base.Program((bubblewrap.python(), '-c', 'print(1)'))
  assert runs.run(program, LIMITS).stdout == b'1\n'


def test_groups_of_killed_makers_are_removed():
  home = isolation.find().home
  if home is None:
    pytest.skip('this user cannot make control groups')
  dead = subprocess.Popen(['true'])
  dead.wait()
  left = [folder / f'arl-{dead.pid}-0' for folder in home.folders]
  for each in left:
    each.mkdir()
  cgroups._sweep(home)
  assert not any(each.exists() for each in left)


def test_bwrap_is_found():
  assert isolation.find().bwrap == shutil.which('bwrap')
