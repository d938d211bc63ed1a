"""Known faults of verifiers, rewards, sandboxes and calls of tools."""

import asyncio
import concurrent.futures
import json
import pathlib
import socket
import subprocess
import sys
import time

import hypothesis
import hypothesis.strategies as st
import plain
import pytest
import stubborn

from arl import episode
from arl.envs import base, call_syntax, calls
from arl.rewards import answers, forms, maths, pool, search, verdict
from arl.rollout import scripted
from arl.sandbox import base as sandbox
from arl.sandbox import isolation, programs, runs
from arl.train import batch


@pytest.fixture(scope='module')
def verifiers():
  with pool.Pool(2, seconds=2.0, warm=maths.warm) as made:
    yield made


ASK = "from arl.rewards import maths; print(maths.verify('5/8', '0.625').score)"


def test_48_a_verdict_is_the_same_wherever_it_is_asked_for(verifiers):
  def ask():
    return maths.verify('5/8', '0.625').score

  with concurrent.futures.ThreadPoolExecutor(1) as threads:
    in_thread = threads.submit(ask).result()

  async def in_task():
    pooled = await verifiers.ask(maths.verify, '5/8', '0.625')
    return ask(), pooled.score

  assert [ask(), in_thread, *asyncio.run(in_task())] == [1.0] * 4
  child = subprocess.run(
    [sys.executable, '-c', ASK], capture_output=True, text=True
  )
  assert child.stdout.strip() == '1.0', child.stderr


def unsure(state, text):
  """Grades by a verifier that breaks at some answers."""
  del text
  if state == 'broken':
    raise base.RewardFailure('no such gold')
  return state, episode.Turn('', 1.0, True)


def test_48_a_verifier_that_breaks_gives_no_zero(verifiers):
  found = verifiers.call(stubborn.raises)
  assert (found.score, found.status) == (None, verdict.ERROR)
  states = iter(['fine', 'broken', 'fine', 'fine'])
  world = plain.env()._replace(reset=lambda task: next(states), step=unsure)
  said = scripted.ScriptedEngine(lambda request: [5], 9)
  rolled = plain.roll_out(said, world, samples=4)
  assert [e.status for e in rolled].count(episode.REWARD_ERROR) == 1
  assert 'no such gold' in rolled[1].error
  batch.check_failed(rolled, 0.25)
  with pytest.raises(RuntimeError, match='1 of 4 episodes failed'):
    batch.check_failed(rolled, 0.1)


HUGE = ('$9^{9^{9^{9}}}$', '$10^{10^{10}}$', '$(10^{7})!$', '$9^{9^{9^{9}}}$')


def test_49_answers_too_large_to_work_out_hold_nobody_up(verifiers):
  start = time.monotonic()
  asked = [verifiers.submit(maths.verify, '5', text) for text in HUGE]
  asked.append(verifiers.submit(maths.verify, '5', '5'))
  found = [each.result() for each in asked]
  assert [each.status for each in found[:4]] == [verdict.TIMEOUT] * 4
  assert found[4].score == 1.0
  assert time.monotonic() - start < 10


def test_49_what_ignores_signals_is_ended_and_leaves_no_process():
  with pool.Pool(2, seconds=0.3) as made:
    stuck = [made.submit(stubborn.ignores) for _ in range(3)]
    fine = made.submit(stubborn.right)
    assert {each.result().status for each in stuck} == {verdict.TIMEOUT}
    assert fine.result().score == 1.0
    pids = made.pids()
    assert len(pids) == 2
  assert not any(pathlib.Path(f'/proc/{pid}').exists() for pid in pids)


EQUAL = [
  (r'$\frac{1}{3^{80}}$', r'$\frac{1}{3^{81}}$', 0),
  ('0.0000001', '0.0000003', 0),
  ('5p+q-8=0', 'p-2q+1=0', 0),
  (r'$2-\frac{3}{\mathrm{q}}$', r'$2+\frac{3}{\mathrm{q}}$', 0),
  ('$12$', r'first \boxed{7} then \boxed{12}', 1),
  ('$k=5,6$', '$k=4,6$', 0),
  (r'$\pm 7$', '$7$', 0),
  ('$(2,3)$', '$(3,2)$', 0),
  ('48', 'Result: **48**', 1),
  ('$17$', r'$\text{17}$', 1),
  ('1,250', '$1250$', 1),
  (r'$\frac{5}{8}$', '0.625', 1),
]


@pytest.mark.parametrize('gold, answer, want', EQUAL)
def test_50_formulas_are_equal_or_not(gold, answer, want):
  assert maths.verify(gold, answer).score == want


@hypothesis.settings(deadline=None, max_examples=30)
@hypothesis.given(
  st.integers(-999, 999), st.lists(st.integers(-999, 999), max_size=3)
)
def test_50_naming_more_does_not_help(gold, others):
  """The last box counts, and a list is not the number in it."""
  boxes = [*others, gold]
  text = ' or '.join(rf'\boxed{{{n}}}' for n in boxes)
  assert maths.verify(str(gold), text).score == 1
  wrong = rf'{text}, no: \boxed{{{gold + 1}}}'
  assert maths.verify(str(gold), wrong).score == 0
  listed = ', '.join(map(str, {*others, gold, gold + 1}))
  assert maths.verify(str(gold), rf'\boxed{{{listed}}}').score == 0


ONCE = '<think>a</think><answer>4</answer>'


@pytest.mark.parametrize(
  'text, gold, want',
  [
    ('<answer></answer>', 'beagle', 0),
    ('<answer>concatenate</answer>', 'cat', 0),
    ('<think><answer>4</answer></think>', '4', 0),
    (ONCE, '4', 1),
  ],
)
def test_51_an_answer_is_paid_for_what_it_says(text, gold, want):
  said = answers.said(text)
  answer = None if said is None else answers.tagged(said)
  assert search.exact_match(answer, [gold]) == want


@pytest.mark.parametrize(
  'text, want',
  [
    ('<think>a</think><think>b</think><answer>1</answer>', False),
    ('<think>a\nb</think>\n<answer>4</answer>', True),
    (f'{ONCE} and more', False),
    (ONCE, True),
    (f'{ONCE}{ONCE}', False),
  ],
)
def test_51_a_form_is_all_of_the_text(text, want):
  assert forms.think_answer(text) == want


GOLD = 'beagle'
HACKS = ['', ' \n', f'{GOLD} ' * 100, f'Which dog is it? {GOLD}',
         f'{GOLD}, poodle, husky', f'{GOLD} or poodle']  # fmt: skip


@hypothesis.settings(deadline=None, max_examples=40)
@hypothesis.given(
  st.sampled_from(HACKS), st.text('<>/answerthik \n', max_size=9)
)
def test_51_what_is_no_answer_earns_no_more_than_a_wrong_one(hack, noise):
  for inside in (hack, hack + noise, noise + hack):
    text = f'<think>t</think><answer>{inside}</answer>'
    said = search.read(text)
    if search.normalized(said.answer or '') == GOLD:
      continue
    assert search.exact_match(said.answer, [GOLD]) == 0
    assert forms.r1(text, 0.0) <= forms.r1(ONCE, 0.0)
  assert search.exact_match(answers.tagged(''), [GOLD]) == 0


LIMITS = sandbox.Limits(seconds=1.0, cpu=1.0, memory=256 << 20)


@pytest.fixture(scope='module')
def isolated():
  """Says so where nothing isolates, and passes nothing."""
  try:
    return isolation.find()
  except sandbox.Refused as error:
    pytest.skip(f'NOT TESTED, nothing isolates here: {error}')


MARK = 'ARL_KNOWN_FAULT'
ESCAPES = {
  'sleeps': ('import time; time.sleep(60)', {'seconds'}),
  'leaves its session': (
    'import os, time\nif os.fork():\n  time.sleep(60)\nos.setsid()\n'
    'time.sleep(60)',
    {'seconds'},
  ),
  'forks without end': (
    'import os\nwhile True:\n  try: os.fork()\n  except OSError: pass',
    {'seconds', 'cpu', 'memory'},
  ),
  'takes ten gigabytes': ('x = bytearray(10 << 30)', {'memory', '1'}),
  'writes outside': ("open('OUTSIDE', 'w').write('x')", {'1'}),
  'reaches the network': (
    'import subprocess, sys\n'
    "made = subprocess.run([sys.executable, '-c', 'import socket\\n"
    'socket.create_connection(("127.0.0.1", PORT), 1)\'])\n'
    'sys.exit(made.returncode)',
    {'1'},
  ),
  'prints its environment': ('import os; print(dict(os.environ))', {'0'}),
  'ignores the end': (
    'import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n'
    'while True: pass',
    {'seconds', 'cpu'},
  ),
}


def marked(mark):
  """The processes whose environment holds a mark."""
  found = []
  for path in pathlib.Path('/proc').glob('[0-9]*/environ'):
    try:
      if f'{MARK}={mark}'.encode() in path.read_bytes():
        found.append(path.parent.name)
    except OSError:
      continue
  return found


@pytest.mark.usefixtures('isolated')
@pytest.mark.parametrize('name', ESCAPES)
def test_54_a_program_ends_and_nothing_of_it_is_left(
  name, tmp_path, monkeypatch
):
  source, ends = ESCAPES[name]
  outside = tmp_path / 'file'
  outside.write_text('as it was')
  outside.chmod(0o666)
  monkeypatch.setenv('SECRET_TOKEN', 'not to be seen')
  with socket.create_server(('127.0.0.1', 0)) as listening:
    port = str(listening.getsockname()[1])
    source = source.replace('PORT', port).replace('OUTSIDE', str(outside))
    program = programs.python(source)._replace(env={MARK: name})
    outcome = runs.run(program, LIMITS)
    listening.settimeout(0.01)
    with pytest.raises(TimeoutError):
      listening.accept()
  assert (outcome.limit or str(outcome.code)) in ends, outcome
  assert outcome.seconds < LIMITS.seconds + 2
  assert outside.read_text() == 'as it was'
  assert b'not to be seen' not in outcome.stdout + outcome.stderr
  assert marked(name) == []


def test_54_without_isolation_nothing_runs(monkeypatch):
  def none(unsafe=False):
    raise sandbox.Refused('nothing isolates')

  monkeypatch.setattr(isolation, 'find', none)
  with pytest.raises(sandbox.Refused):
    runs.run(programs.python('print(1)'))


@pytest.mark.usefixtures('isolated')
def test_54_many_runs_leave_no_zombie():
  children = pathlib.Path('/proc/self/task').glob('*/children')
  before = sum(len(path.read_text().split()) for path in children)
  for _ in range(10):
    outcome = runs.run(sandbox.Program(('/bin/true',)), LIMITS)
    assert outcome.code == 0
  children = pathlib.Path('/proc/self/task').glob('*/children')
  after = sum(len(path.read_text().split()) for path in children)
  assert after <= before


def block(text):
  return f'<tool_call>{text}</tool_call>'


CLOSES = 'close with </tool_call> ok'
TWO = block(
  '{"name":"w","arguments":{"p":{"a":[1,2]},"t":"' + CLOSES + '"}}'
) + block('{"name":"v","arguments":{}}')
GOOD = block('{"name":"v","arguments":{}}')
V = calls.Call('v', {})


def test_55_two_calls_and_a_string_that_looks_like_an_end():
  found = calls.json_calls(TWO)
  assert found.calls == (calls.Call('w', {'p': {'a': [1, 2]}, 't': CLOSES}), V)
  assert not found.truncated and found.rest == ''


@pytest.mark.parametrize(
  'text, names, faults, truncated',
  [
    (block('{"name":"w","arguments":{"k":1},}'), [], 1, False),
    (GOOD + block('{"name":}'), ['v'], 1, False),
    (GOOD[:-20], [], 0, True),
    (f'<think>{GOOD}</think>so', [], 0, False),
  ],
)
def test_55_what_is_no_call_is_none(text, names, faults, truncated):
  found = calls.json_calls(text)
  made = [c for c in found.calls if isinstance(c, calls.Call)]
  assert [call.name for call in made] == names
  assert len(found.calls) - len(made) == faults
  assert found.truncated == truncated


def test_55_escapes_and_arguments_as_text():
  wanted = {'s': 'é \n " {'}
  odd = r'{"name":"w","arguments":{"s":"é \n \" {"}}'
  assert calls.json_calls(block(odd)).calls == (calls.Call('w', wanted),)
  text = json.dumps({'name': 'w', 'arguments': json.dumps(wanted)})
  assert calls.json_calls(block(text)).calls == (calls.Call('w', wanted),)


values = st.recursive(
  st.none()
  | st.booleans()
  | st.integers(-(10**9), 10**9)
  | st.text('é"\\{}<>/tool_cal nk\n', max_size=12)
  | st.sampled_from(['</tool_call>', '<tool_call>', '{"name": "x"}']),
  lambda inner: (
    st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=4), inner, max_size=3)
  ),
  max_leaves=8,
)
arguments = st.dictionaries(st.text(min_size=1, max_size=5), values, max_size=4)
prose = st.text('abc {}",:\n', max_size=10)


@hypothesis.settings(deadline=None, max_examples=60)
@hypothesis.given(
  st.lists(st.tuples(prose, arguments), min_size=1, max_size=3),
  prose,
  st.booleans(),
)
def test_55_any_arguments_between_any_prose_come_back(told, after, as_text):
  text, wanted = '', []
  for i, (before, given) in enumerate(told):
    inside = json.dumps(given) if as_text else given
    made = json.dumps({'name': f'f{i}', 'arguments': inside})
    text += before + block(made)
    wanted.append(calls.Call(f'f{i}', given))
  found = calls.json_calls(text + after)
  assert found.calls == tuple(wanted)
  assert found.rest == ''.join(before for before, _ in told) + after


@hypothesis.settings(deadline=None, max_examples=60)
@hypothesis.given(
  st.text('{}[]":,\\ </>tolcankhi_né0\n', max_size=80),
  st.sampled_from([*call_syntax.SYNTAXES]),
)
def test_55_nothing_that_is_written_raises(text, name):
  read = call_syntax.SYNTAXES[name].read
  for one in (text, block(text), GOOD + text):
    for each in read(one, []).calls:
      assert isinstance(each, calls.Call | calls.Fault)


@pytest.mark.parametrize('name', call_syntax.SYNTAXES)
def test_55_braces_without_end_take_no_time(name):
  start = time.process_time()
  for text in ('{' * 100_000, block('{' * 100_000), '<tool_call>{' * 9_000):
    call_syntax.SYNTAXES[name].read(text, [])
  assert time.process_time() - start < 3
