"""Shells whose state is a value, pools and calls."""

import functools
import threading
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arl.sandbox import base, calls, files, pool, programs, runs, session

LIMITS = base.Limits(
  seconds=20.0, memory=128 << 20, disk=1 << 20, inodes=200, output=10_000
)
PRINT = programs.python('print(1)')
START = functools.partial(runs.start, limits=LIMITS)
pytestmark = pytest.mark.usefixtures('isolated')


def _do(state, command):
  return session.step(START, state, command)


def test_a_shell_goes_on_where_it_was():
  state = session.begin({'a/b.txt': b'hello\n'})
  state, _ = _do(state, 'cd a; export X="1 2"; echo hi > /tmp/q; ln -s b.txt l')
  state, outcome = _do(state, 'pwd; echo "$X"; cat /tmp/q l; echo no >&2')
  assert outcome.stdout == b'/task/a\n1 2\nhi\nhello\nno\n'
  _, outcome = _do(state, 'exit 3')
  assert outcome.code == 3


def test_stepping_again_gives_the_same():
  state, _ = _do(session.begin({'a': b'1'}), 'mkdir -m 500 d; chmod 0 a')
  first = _do(state, 'ls -la d > l; echo 2 > b')[0]
  again = _do(state, 'ls -la d > l; echo 2 > b')[0]
  assert (
    first.work[:3]
    == again.work[:3]
    == (
      files.Entry('a', 0, b'1', 'file'),
      files.Entry('b', 0o644, b'2\n', 'file'),
      files.Entry('d', 0o500, b'', 'folder'),
    )
  )
  assert first._replace(work=()) == again._replace(work=())


def test_a_shell_that_is_killed_keeps_its_files_and_its_place():
  state = session.begin({})
  start = functools.partial(runs.start, limits=LIMITS._replace(seconds=0.5))
  state, outcome = session.step(start, state, 'cd /; echo 1 > /task/a; sleep 9')
  assert outcome.limit == base.SECONDS and state.folder == '/task'
  assert [entry.name for entry in state.work] == ['a']


@pytest.mark.parametrize(
  'command',
  [
    'for i in $(seq 150); do mkdir d; cd d; done',
    'for i in 1 2 3; do truncate -s 900K $i; done',
  ],
)
def test_too_much_is_not_kept(command):
  state = session.begin({'a': b'1'})
  after, outcome = _do(state, command)
  assert after == state and outcome.limit == base.DISK


@pytest.mark.parametrize(
  'told', ['', '/etc', 'x\\0y\\0z', '\\0', '/nowhere\\0', '/task\\0exit 9']
)
def test_a_shell_may_lie_about_itself(told):
  state, _ = _do(session.State(), 'cd /tmp')
  lie = f"trap - EXIT; printf '{told}' > /dev/shm/.session"
  state, _ = _do(state, lie)
  _, outcome = _do(state, 'echo alive')
  assert outcome.code in (0, 9)


def test_special_files_are_left_out():
  state, _ = _do(session.State(), 'mkfifo f; echo 1 > a; ln a b; ln -s /etc e')
  assert [(e.name, e.kind) for e in state.work] == [
    ('a', 'file'), ('b', 'file'), ('e', 'link'),
  ]  # fmt: skip


_NAMES = st.text(
  st.characters(exclude_characters='/\0', exclude_categories=('Cs',)),
  min_size=1,
  max_size=12,
).filter(lambda name: name not in ('.', '..'))
_TARGETS = st.binary(min_size=1, max_size=9).filter(lambda t: b'\0' not in t)
_LEAVES = st.one_of(
  st.tuples(
    st.just('file'),
    st.sampled_from([0, 0o400, 0o644, 0o755]),
    st.binary(max_size=64),
  ),
  st.tuples(st.just('link'), st.just(0o777), _TARGETS),
)
_TREES = st.recursive(
  _LEAVES,
  lambda deeper: st.tuples(
    st.just('folder'),
    st.sampled_from([0o500, 0o700, 0o755]),
    st.dictionaries(_NAMES, deeper, max_size=4),
  ),
  max_leaves=12,
)


def _entries(above, nodes):
  for name, (kind, mode, content) in nodes.items():
    path = f'{above}/{name}' if above else name
    if kind == 'folder':
      yield files.Entry(path, mode, b'', kind)
      yield from _entries(path, content)
    else:
      yield files.Entry(path, mode, content, kind)


@given(st.dictionaries(_NAMES, _TREES, max_size=4))
@settings(
  max_examples=40,
  deadline=None,
  suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_what_is_put_is_what_is_taken(nodes):
  tree = tuple(sorted(_entries('', nodes)))
  state = session.State(work=tree, tmp=tree)
  after, outcome = _do(state, 'true')
  assert after.work == tree and after.tmp == tree, outcome
  assert files.digest(after.work) == files.digest(tree)


def test_digests_tell_trees_apart():
  entry = files.Entry('a', 0o644, b'b', 'file')
  others = [
    (),
    (entry._replace(name='b'),),
    (entry._replace(mode=0o600),),
    (entry._replace(data=b''),),
    (entry._replace(kind='link'),),
    (entry._replace(name='ab', data=b''),),
  ]
  digests = {files.digest(tree) for tree in [(entry,), *others]}
  assert len(digests) == 7


def test_a_pool_gives_each_sandbox_once():
  with pool.Pool(PRINT, LIMITS, ready=2) as made:
    program = programs.python(
      "import os; print(os.path.exists('/tmp/x')); open('/tmp/x', 'w')"
    )
    outcomes = [made.run(program) for _ in range(5)]
  assert [outcome.stdout for outcome in outcomes] == [b'False\n'] * 5


def test_a_pool_of_sessions():
  with pool.Pool(session.PROGRAM, LIMITS) as made:
    state = session.begin({'a': b'1'})
    for i in range(3):
      state, outcome = session.step(made.start, state, f'cat a; echo {i} >> a')
  assert outcome.stdout == b'10\n1\n'


def test_a_pool_outlives_the_threads_that_use_it():
  with pool.Pool(PRINT, LIMITS, ready=1) as made:
    outcomes = []
    for _ in range(3):
      work = threading.Thread(
        target=lambda: outcomes.append(made.run(programs.python('print(1)')))
      )
      work.start()
      work.join()
  assert [outcome.stdout for outcome in outcomes] == [b'1\n'] * 3


def test_a_sandbox_that_ended_while_it_waited_is_not_used():
  with pool.Pool(PRINT, LIMITS, ready=1) as made:
    while not made._waiting:
      time.sleep(0.01)
    dead = made._waiting[0]
    dead._process.kill()
    dead._process.wait()
    assert made.run(programs.python('print(1)')).stdout == b'1\n'


def test_a_pool_runs_its_command_only():
  with pool.Pool(PRINT, LIMITS) as made:  # noqa: SIM117
    with pytest.raises(ValueError, match='this pool runs'):
      made.run(base.Program(('/bin/true',)))
  with pytest.raises(base.SandboxFailure, match='closed'):
    made.run(PRINT)
  with pytest.raises(ValueError, match='1 sandbox or more'):
    pool.Pool(PRINT, ready=0)


def test_a_pool_that_cannot_start_says_so(tmp_path):
  broken = PRINT._replace(mounts={'/base': str(tmp_path / 'missing')})
  with pool.Pool(broken, LIMITS) as made:  # noqa: SIM117
    with pytest.raises(base.SandboxFailure, match='missing'):
      made.run(PRINT)


def test_a_sandbox_that_does_not_start_once_is_made_again(monkeypatch):
  start, failures = runs.start, [OSError('killed while it started')] * 2

  def failing(*args):
    if failures:
      raise failures.pop()
    return start(*args)

  monkeypatch.setattr(runs, 'start', failing)
  with pool.Pool(PRINT, LIMITS, ready=1) as made:
    assert made.run(programs.python('print(1)')).stdout == b'1\n'
  assert not failures


def test_a_pool_of_calls():
  with pool.Pool(calls.PROGRAM, LIMITS) as made:
    source = 'def f(a, b): return a + b'
    answers = [calls.call(made.start, source, 'f', [i, 1]) for i in range(3)]
  assert [answer.value for answer in answers] == [1, 2, 3]


def _call(source, *arguments):
  return calls.call(START, source, 'f', arguments)


@pytest.mark.parametrize(
  'value', [None, True, 1, 1.5, 'é\n"\0', [1, [2]], {'a': [None]}, 10**30]
)
def test_an_answer_is_plain_data(value):
  answer = _call('def f(x):\n  print("noise")\n  return x', value)
  assert answer.error == '' and calls.same(answer.value, value)
  assert answer.outcome.stderr == b'noise\n'


@pytest.mark.parametrize(
  'source, error',
  [
    ('def f(): return {1}', 'exit status 1'),
    ('def g(): return 1', 'exit status 1'),
    ('def f(): raise ValueError', 'exit status 1'),
    ('def f(): import os; os._exit(0)', 'no JSON'),
    ("def f(): return float('nan')", 'no JSON: NaN'),
    ('def f():\n  while True: pass', 'limit: cpu'),
  ],
)
def test_what_is_no_answer(source, error):
  start = functools.partial(runs.start, limits=LIMITS._replace(cpu=0.5))
  answer = calls.call(start, source, 'f', ())
  assert answer.value is None and answer.error.startswith(error)


@pytest.mark.parametrize(
  'answer, expected, equal',
  [
    (1, True, False),
    (1, 1.0, False),
    (0, False, False),
    ([1, 2], [1, 2], True),
    ([1], [1, 2], False),
    ([True], [1], False),
    ({'a': 1, 'b': [2]}, {'b': [2], 'a': 1}, True),
    ({'a': 1}, {'a': 1, 'b': 2}, False),
    ('1', 1, False),
    (None, None, True),
  ],
)
def test_equality_of_answers(answer, expected, equal):
  assert calls.same(answer, expected) is equal
