"""Environments that run programs: what they promise, in real sandboxes."""

import json
import random
import time

import numpy as np
import pytest

from arl import episode
from arl.envs import base, boxes, coding, repair, repair_bank, terminal
from arl.rewards import outcomes
from arl.sandbox import base as sandbox
from arl.sandbox import isolation

try:
  isolation.find(False)
except sandbox.Refused as error:
  pytest.skip(str(error), allow_module_level=True)

ENVS = {
  'coding': (coding.make(), coding.at_random, 2),
  'terminal': (terminal.make(), terminal.at_random, 5),
  'terminal, two pointers': (terminal.make(hops=2), terminal.at_random, 6),
  'repair': (repair.make(), repair.at_random, 4),
  'repair, three files': (repair.make(files=3), repair.at_random, 4),
  'repair by likeness': (
    repair.make(grade='similarity'), repair.at_random, 4,
  ),
}  # fmt: skip


@pytest.fixture(params=ENVS)
def played(request):
  return ENVS[request.param]


@pytest.mark.parametrize('split', base.SPLITS)
def test_the_oracle_earns_one_also_from_a_task_that_was_stored(played, split):
  env, _, max_turns = played
  for index in range(12):
    task = env.task(split, index)
    task = task._replace(data=json.loads(json.dumps(task.data)))
    exchanges = base.play(env, task, env.oracle, max_turns)
    assert exchanges[-1].turn.done, task
    rewards = [e.turn.reward for e in exchanges]
    assert rewards == [0] * (len(rewards) - 1) + [1], task


def test_acting_at_random_earns_next_to_nothing(played):
  env, act, max_turns = played
  if env is ENVS['repair by likeness'][0]:
    return  # a wrong line is somewhat like the right one
  rng = np.random.default_rng(0)
  earned = [
    e[-1].turn.reward
    for i in range(20)
    if (
      e := base.play(
        env, env.task(base.TRAIN, i), lambda state: act(state, rng), max_turns
      )
    )[-1].turn.done
  ]
  assert sum(earned) <= 3


def test_tasks_are_pure_and_the_splits_apart(played):
  env, *_ = played
  tasks = [env.task(split, i) for split in base.SPLITS for i in range(40)]
  assert tasks == [env.task(s, i) for s in base.SPLITS for i in range(40)]
  told = [f'{t.prompt} {t.data.get("files")}' for t in tasks]
  assert not set(told[:40]) & set(told[40:])


def test_a_state_is_a_snapshot(played):
  env, act, max_turns = played
  rng = np.random.default_rng(1)
  for index in range(3):
    state, kept = env.reset(env.task(base.TRAIN, index)), []
    for _ in range(max_turns):
      action = env.noisy(state, rng) if rng.random() < 0.5 else act(state, rng)
      kept.append((state, action))
      state, turn = env.step(state, action)
      if turn.done:
        break
    first = [repr(env.step(*one)) for one in kept]
    again = [repr(env.step(*one)) for one in reversed(kept)]
    assert first == again[::-1]


@pytest.mark.parametrize('text', ['', ' ', '\x00', 'é' * 50, 'x' * 10_000])
def test_bad_actions_are_observations(played, text):
  env, *_ = played
  state, turn = base.checked_step(env, env.reset(env.task(base.TRAIN, 0)), text)
  assert turn.text.startswith('error: ') and len(turn.text) < 80
  assert (turn.reward, turn.done, state.turns) == (0, False, 1)


# --- Functions to write -------------------------------------------------------


def judged(source, **settings):
  """What a source earns at once, on task 0."""
  env = coding.make(tries=1, **settings)
  _, turn = env.step(env.reset(env.task(base.TRAIN, 0)), source)
  assert turn.done
  return turn.reward


FORGED = {
  'prints': 'def f(x): print([[9]]); return 9',
  'leaves with success': 'import os\ndef f(x): os._exit(0)',
  'says it passed': 'import sys\ndef f(x): sys.exit("passed")',
  'answers for all': (
    'def f(x): return 9\nimport sys\nframe = sys._getframe(1)\n'
    'frame.f_locals["made"] = [[9]] * 9'
  ),
  'equals everything': (
    'class A(int):\n  def __eq__(self, o): return True\ndef f(x): return A(1)'
  ),
  'looks for what is expected': (
    'import gc\ndef f(x): return [o for o in gc.get_objects()'
    ' if isinstance(o, dict) and "expected" in o] and 1'
  ),
  'writes to every descriptor': (
    'import os\nfor i in range(3, 64):\n  try: os.write(i, b"[[1]]")\n'
    '  except OSError: pass\ndef f(x): return 1'
  ),
}


@pytest.mark.parametrize('how', FORGED)
def test_no_source_talks_itself_right(how):
  assert judged(FORGED[how]) == 0


def test_partial_credit_and_levels():
  env = coding.make()
  data = env.task(base.TRAIN, 0).data
  right = env.oracle(env.reset(env.task(base.TRAIN, 0)))
  some = data['inputs'][0]
  half = right.replace('return ', f'return 0 if x > {some} else ')
  passed = sum(x <= some for x in data['inputs'])
  share = judged(half, grade='fraction')
  assert passed / len(data['inputs']) <= share < 1
  assert judged('def f(x) return', grade='coderl') == -1
  assert judged('def f(x): return x / 0', grade='coderl') == -0.6
  assert judged('def f(x): return "no"', grade='coderl') == -0.3
  assert judged(f'Here:\n```python\n{right}\n```') == 1


def test_a_source_that_does_not_end_costs_its_seconds_once():
  began = time.monotonic()
  assert judged('def f(x):\n  while True: pass', seconds=1.0) == 0
  assert time.monotonic() - began < 60


def test_each_input_counts_where_a_source_breaks_off_at_one():
  source = 'import os\ndef f(x): os._exit(1) if x == 2 else None\n'
  seen = boxes.observe(source, 'f', [[1], [2], [3]], 3.0, False)
  assert seen == [[None], 'it broke off', [None]]
  assert boxes.graded(seen[1], None) == outcomes.CRASHED


def test_what_a_program_did_is_remembered_unless_it_is_much():
  env = terminal.make()
  state = env.reset(env.task(base.TRAIN, 0))
  for command in ('echo $RANDOM', 'date +%N'):
    assert env.step(state, command) == env.step(state, command)
  large = 'head -c 9999 /dev/urandom > a; cksum a'
  assert env.step(state, large)[1] != env.step(state, large)[1]


@pytest.mark.parametrize(
  'source', ['(' * 10**5, '\x00', 'x = ' + '-' * 10**5 + '1', 'é(' * 99, '']
)
def test_what_breaks_a_compiler_breaks_it_in_the_sandbox(source):
  (seen,) = boxes.observe(source, 'f', [[1]], 3.0, False)
  assert boxes.graded(seen, 1) in (outcomes.NOT_COMPILED, outcomes.CRASHED)


def test_a_broken_sandbox_is_no_fault_of_the_source(monkeypatch):
  def fails(*_):
    raise sandbox.SandboxFailure('no memory')

  monkeypatch.setattr(boxes.calls, 'call', fails)
  env = coding.make(seconds=2.5)
  state = env.reset(env.task(base.TRAIN, 0))
  for _ in range(2):
    with pytest.raises(base.InfrastructureFailure, match='failed: no memory'):
      env.step(state, env.oracle(state))


# --- A shell ------------------------------------------------------------------


def shell(prompt):
  """The first task of training whose prompt begins so."""
  env = terminal.make()
  tasks = (env.task(base.TRAIN, i) for i in range(100))
  return env, next(t for t in tasks if t.prompt.startswith(prompt))


def said(env, task, *actions):
  state = env.reset(task)
  for action in actions:
    state, turn = env.step(state, action)
  return turn


def test_exactly_the_wanted_files_have_to_be_there():
  env, task = shell('rename')
  first, second = task.prompt.split()[1], task.prompt.split()[3]
  assert said(env, task, f'mv {first} {second}', 'done').reward == 1
  for wrong in (
    f'cp {first} {second}',
    f'mv {first} {second}; touch more',
    f'ln -s {first} {second}',
    f'mv {first} {second}; echo x >> {second}',
  ):
    assert said(env, task, wrong, 'done').reward == 0, wrong
  assert said(env, task, f'mv {first} {second}', 'answer done').reward == 0


def test_a_shell_keeps_where_it_is_and_shows_the_end_of_its_output():
  env, task = shell('what')
  assert said(env, task, 'mkdir a; cd a', 'pwd').text == f'{sandbox.WORK}/a'
  assert said(env, task, 'export A=7', 'echo $A').text == '7'
  assert said(env, task, 'true').text == 'ok'
  assert said(env, task, 'false').text == 'error: 1'
  shown = said(env, task, 'seq 100').text
  assert len(shown) == 60 and shown.endswith('99\n100')


def test_a_command_that_does_not_end_is_ended():
  env = terminal.make(seconds=1.0)
  turn = said(env, env.task(base.TRAIN, 0), 'sleep 60')
  assert turn.text == 'error: seconds'


# --- A repository -------------------------------------------------------------


def test_each_break_is_one_and_shows():
  for one in repair_bank.BANK:
    for right, wrong in one.breaks:
      assert one.source.count(right) == 1, (one.name, right)
      _, got, want = repair._symptom(
        one, one.source.replace(right, wrong), random.Random(0)
      )
      assert got != repr(want)


def test_edits_by_line_and_by_block():
  env = repair.make()
  task = env.task(base.TRAIN, 0)
  path, right = task.data['path'], task.data['fixed']
  wrong = task.data['files'][path]
  block = f'### {path}\n<<<<<<< SEARCH\n{wrong}=======\n{right}>>>>>>> REPLACE'
  assert said(env, task, block, 'submit').reward == 1
  assert said(env, task, f'set {path} 99 x').text == 'error: no such line'
  assert said(env, task, 'open /etc/passwd').text == 'error: no such file'
  assert said(env, task, 'set ../x.py 1 y').text == 'error: no such line'
  before = said(env, task, 'run').text
  assert before == task.prompt.split(' is ')[1].split(', not')[0] or (
    before.startswith('error: ')
  )
  assert said(env, task, block, 'run').text in task.prompt


def test_a_function_next_to_it_may_not_break():
  env = repair.make(functions=2)
  task = env.task(base.TRAIN, 0)
  (path,) = task.data['files']
  other = next(n for n in task.data['tests'] if n != task.data['name'])
  fixed = task.data['fixed']
  broken = fixed.replace(f'def {other}(', f'def {other}_(')
  block = f'### {path}\n<<<<<<< SEARCH\n{task.data["files"][path]}=======\n'
  block += f'{broken}>>>>>>> REPLACE'
  assert said(env, task, block, 'submit').reward == 0


# --- Settings -----------------------------------------------------------------


@pytest.mark.parametrize(
  'make, settings, message',
  [
    (coding.make, {'grade': 'best'}, "no grade 'best'; grades: all_passed"),
    (coding.make, {'tries': 0}, 'tries 0; give 1 or more'),
    (terminal.make, {'kinds': ('dance',)}, "kinds \\('dance',\\); give some"),
    (terminal.make, {'shown': 3}, 'shown 3; give'),
    (repair.make, {'grade': 'best'}, "no grade 'best'; grades: tests"),
    (repair.make, {'files': 4}, 'files 4, functions 2'),
  ],
)
def test_bad_settings_are_refused(make, settings, message):
  with pytest.raises(ValueError, match=message):
    make(**settings)


@pytest.mark.parametrize('make', [coding.make, terminal.make, repair.make])
def test_without_isolation_nothing_is_run(make, monkeypatch):
  def refuses(unsafe):
    raise sandbox.Refused('install bubblewrap')

  monkeypatch.setattr(boxes.isolation, 'find', refuses)
  with pytest.raises(sandbox.Refused, match='install bubblewrap'):
    make()


def test_statuses_of_an_episode():
  assert base.InfrastructureFailure.status == episode.INFRASTRUCTURE_ERROR
