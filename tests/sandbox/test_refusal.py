"""Without isolation nothing runs, unless told so. These need no isolation."""

import logging

import pytest

from arl.sandbox import base, cgroups, isolation, programs, runs, session

LIMITS = base.Limits(seconds=20.0, cpu=10.0, memory=256 << 20)


@pytest.fixture
def no_tools(monkeypatch):
  monkeypatch.setenv('PATH', '/nowhere')
  isolation._isolated.cache_clear()
  isolation._warn.cache_clear()
  yield
  isolation._isolated.cache_clear()
  isolation._warn.cache_clear()


@pytest.mark.usefixtures('no_tools')
def test_it_refuses_and_says_what_to_install():
  with pytest.raises(base.Refused) as caught:
    runs.run(programs.python('print(1)'))
  text = str(caught.value)
  assert 'apt-get install bubblewrap' in text
  assert 'unsafe_without_isolation=True' in text


def test_an_old_bubblewrap_is_refused(no_tools, monkeypatch, tmp_path):
  for name in ('bwrap', 'setpriv'):
    (tmp_path / name).write_text('#!/bin/sh\necho bubblewrap 0.6.1\n')
    (tmp_path / name).chmod(0o755)
  monkeypatch.setenv('PATH', str(tmp_path))
  with pytest.raises(base.Refused, match='0.8 is needed'):
    isolation.find()


def test_a_machine_without_namespaces_is_refused(
  no_tools, monkeypatch, tmp_path
):
  text = (
    '#!/bin/sh\n[ "$1" = --version ] && { echo bubblewrap 0.8.0; exit; }\n'
    'echo bwrap: No permissions to create new namespace >&2; exit 1\n'
  )
  for name in ('bwrap', 'setpriv'):
    (tmp_path / name).write_text(text)
    (tmp_path / name).chmod(0o755)
  monkeypatch.setenv('PATH', str(tmp_path))
  monkeypatch.setattr(isolation.syscalls, 'program', lambda: b'')
  with pytest.raises(base.Refused, match='No permissions.*docker'):
    isolation.find()


def test_a_missing_filter_is_refused(no_tools, monkeypatch, tmp_path):
  def missing():
    raise OSError('libseccomp.so.2: cannot open shared object file')

  for name in ('bwrap', 'setpriv'):
    (tmp_path / name).write_text('#!/bin/sh\necho bubblewrap 0.8.0\n')
    (tmp_path / name).chmod(0o755)
  monkeypatch.setenv('PATH', str(tmp_path))
  monkeypatch.setattr(isolation.syscalls, 'program', missing)
  with pytest.raises(base.Refused, match='libseccomp'):
    isolation.find()


@pytest.mark.usefixtures('no_tools')
def test_told_so_it_runs_by_rlimits_and_says_it(caplog):
  program = programs.python(
    "print(open('a').read()); open('b', 'w').write('2')", files={'a': b'1'}
  )._replace(wanted=('b',))
  with caplog.at_level(logging.WARNING):
    outcome = runs.run(program, LIMITS, unsafe_without_isolation=True)
    runs.run(program, LIMITS, unsafe_without_isolation=True)
  assert outcome.stdout == b'1\n' and outcome.files == {'b': b'2'}, outcome
  assert len([r for r in caplog.records if 'WITHOUT' in r.message]) == 1
  assert 'no isolation' in isolation.find(True).promise


@pytest.mark.usefixtures('no_tools')
@pytest.mark.parametrize(
  'source, limits, ends',
  [
    ('import time; time.sleep(60)', {'seconds': 0.5}, {'seconds'}),
    ('while True: pass', {'cpu': 0.5}, {'cpu'}),
    ("while True: print('x' * 9999)", {}, {'output'}),
    ('x = b"x" * (1 << 30)', {}, {'1', 'memory'}),
    (
      'import subprocess as s\ns.run(["sleep", "60"])',
      {'seconds': 0.5},
      {'seconds'},
    ),
  ],
)
def test_limits_hold_without_isolation_too(source, limits, ends):
  program = programs.python(source)
  outcome = runs.run(program, LIMITS._replace(**limits), True)
  assert (outcome.limit or str(outcome.code)) in ends
  assert outcome.seconds < 20


@pytest.mark.usefixtures('no_tools')
def test_a_shell_is_never_run_without_isolation():
  def start(program):
    return runs.start(program, LIMITS, unsafe_without_isolation=True)

  with pytest.raises(base.Refused, match='no folders of its own'):
    session.step(start, session.begin({'a': b'1'}), 'cat a')


def _version_2(folder, own, controllers):
  """A tree of version 2 in which the root hands controllers down."""
  (folder / own).mkdir(parents=True)
  (folder / 'cgroup.subtree_control').write_text(controllers)
  (folder / own / 'cgroup.subtree_control').write_text('')


@pytest.mark.parametrize(
  'controllers, found', [('cpu memory pids', True), ('cpu', False)]
)
def test_version_2_groups_lie_where_controllers_are_handed_down(
  monkeypatch, tmp_path, controllers, found
):
  _version_2(tmp_path, 'a/b', controllers)
  monkeypatch.setattr(cgroups, '_mounts', lambda: {'': (tmp_path, '/')})
  monkeypatch.setattr(cgroups, '_own', lambda: {'': '/a/b'})
  want = [cgroups.Home(2, (tmp_path,))] if found else []
  assert cgroups._candidates() == want


def test_a_version_2_group_is_bounded_and_read(tmp_path, monkeypatch):
  group = cgroups.Group(cgroups.Home(2, (tmp_path,)), LIMITS)
  folder = next(tmp_path.iterdir())
  assert (folder / 'memory.max').read_text() == str(256 << 20)
  assert (folder / 'memory.oom.group').read_text() == '1'
  assert (folder / 'pids.max').read_text() == '65'
  (folder / 'memory.peak').write_text('4096\n')
  (folder / 'memory.events').write_text('low 0\noom 1\noom_kill 2\n')
  (folder / 'cpu.stat').write_text('usage_usec 1500000\nuser_usec 1\n')
  assert group.used() == base.Used(1.5, 4096, True)
  monkeypatch.setattr(cgroups, '_PATIENCE', 0.0)
  with pytest.raises(OSError):  # files of a true group vanish with it
    group.close()
