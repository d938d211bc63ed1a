"""Countdown: expressions read without evaluating code, answers, the search."""

import fractions
import itertools
import time

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from arl import episode
from arl.envs import base, countdown, expressions

ENV = countdown.make()
TASK = episode.Task(
  'by hand', 'make 24 of 3 5 9', {'target': 24, 'numbers': [3, 5, 9]}
)
UNREADABLE = 'error: not a whole expression'
FOREIGN = 'error: use numbers, + - * / and brackets'


@pytest.mark.parametrize(
  'text, value, numbers',
  [
    ('3', 3, (3,)),
    ('(3*5)+9', 24, (3, 5, 9)),
    ('3*5+9', 24, (3, 5, 9)),
    ('9+3*5', 24, (9, 3, 5)),
    ('10-2-3', 5, (10, 2, 3)),
    ('24/4/2', 3, (24, 4, 2)),
    ('24/(4/2)', 12, (24, 4, 2)),
    ('(1/3)*3', 1, (1, 3, 3)),
    ('7/2', fractions.Fraction(7, 2), (7, 2)),
    ('2-9', -7, (2, 9)),
    (' ( 3 * 5 ) + 9 ', 24, (3, 5, 9)),
    ('((3))', 3, (3,)),
    ('007', 7, (7,)),
    ('0/5', 0, (0, 5)),
  ],
)
def test_work_out(text, value, numbers):
  assert expressions.work_out(text) == expressions.Worked(value, numbers)


@pytest.mark.parametrize(
  'text, error',
  [
    ('', UNREADABLE),
    ('3+', UNREADABLE),
    ('+3', UNREADABLE),
    ('-3', UNREADABLE),
    ('3 5', UNREADABLE),
    ('(3', UNREADABLE),
    ('3)', UNREADABLE),
    ('()', UNREADABLE),
    ('3(5)', UNREADABLE),
    ('2**9', UNREADABLE),
    ('7//2', UNREADABLE),
    ('(' * 13 + '3' + ')' * 13, UNREADABLE),
    ('1234567890', UNREADABLE),
    ('3.5', FOREIGN),
    ('3e5', FOREIGN),
    ('x', FOREIGN),
    ('٣', FOREIGN),
    ('²', FOREIGN),
    ('3\n+5', FOREIGN),
    ('__import__("os")', FOREIGN),
    ('3/0', 'error: division by zero'),
    ('3/(5-5)', 'error: division by zero'),
    ('1+' * 30 + '1', 'error: longer than 60 characters'),
  ],
)
def test_faults(text, error):
  assert expressions.work_out(text) == expressions.Fault(error)


trees = st.recursive(
  st.integers(0, 99),
  lambda inner: st.tuples(inner, st.sampled_from('+-*/'), inner),
  max_leaves=6,
)


def spelled(tree):
  if isinstance(tree, int):
    return str(tree)
  return f'({spelled(tree[0])}{tree[1]}{spelled(tree[2])})'


def valued(tree):
  if isinstance(tree, int):
    return fractions.Fraction(tree)
  left, right = valued(tree[0]), valued(tree[2])
  match tree[1]:
    case '+':
      return left + right
    case '-':
      return left - right
    case '*':
      return left * right
  return left / right


@hypothesis.given(trees)
def test_brackets_decide(tree):
  text = spelled(tree)
  hypothesis.assume(len(text) <= 60)
  worked = expressions.work_out(text)
  try:
    wanted = valued(tree)
  except ZeroDivisionError:
    assert worked == expressions.Fault('error: division by zero')
  else:
    assert worked.value == wanted


@hypothesis.given(
  st.lists(st.tuples(st.integers(1, 99), st.sampled_from('+-*/')), min_size=1)
)
def test_precedence_is_that_of_python(parts):
  text = ''.join(f'{number}{symbol}' for number, symbol in parts)[:-1]
  hypothesis.assume(len(text) <= 60)
  exact = ''.join(f'F({number}){symbol}' for number, symbol in parts)[:-1]
  value = eval(exact, {'F': fractions.Fraction})
  assert expressions.work_out(text).value == value


@pytest.mark.parametrize('junk', ['(', '1+', '1', ')', '((1', ' ', '-'])
def test_reading_is_quick(junk):
  began = time.process_time()
  for text in (junk * (100_000 // len(junk)), (junk * 60)[:60]):
    expressions.work_out(text)
    ENV.step(ENV.reset(TASK), f'={text}')
    ENV.step(ENV.reset(TASK), f'calc({text})')
  assert time.process_time() - began < 0.5


def every_value(numbers):
  """All values by the plainest search: any two of the list become one."""
  if len(numbers) == 1:
    return {numbers[0]}
  found = set()
  for i, j in itertools.permutations(range(len(numbers)), 2):
    rest = [n for at, n in enumerate(numbers) if at not in (i, j)]
    a, b = numbers[i], numbers[j]
    made = [a + b, a - b, a * b] + ([a / b] if b else [])
    for value in made:
      found |= every_value([*rest, value])
  return found


@hypothesis.settings(deadline=None, max_examples=15)
@hypothesis.given(st.lists(st.integers(1, 12), min_size=1, max_size=4))
def test_the_search_finds_all_there_is(numbers):
  values = every_value([fractions.Fraction(n) for n in numbers])
  for target in range(0, 40):
    found = expressions.solve(numbers, target)
    assert (found is not None) == (target in values)
    if found:
      worked = expressions.work_out(found)
      assert worked.value == target
      assert sorted(worked.numbers) == sorted(numbers)


@pytest.mark.parametrize(
  'answer, reward',
  [
    ('=(3*5)+9', 1.0),
    ('=9+5*3', 1.0),
    (' = 9 + 5 * 3 \n', 1.0),
    ('=24', 0.0),
    ('=3*5+9+0', 0.0),
    ('=3*5', 0.0),
    ('=9+9+3+3', 0.0),
    ('=(3*5)+9 or 3', 0.0),
    ('=(3*5)+9=24', 0.0),
    ('==(3*5)+9', 0.0),
    ('=(3*5)+9;5', 0.0),
    ('=', 0.0),
    ('=39-5*3', 0.0),
    ('=' + '(3*5)+9' * 100, 0.0),
  ],
)
def test_answers(answer, reward):
  _, turn = ENV.step(ENV.reset(TASK), answer)
  assert turn == episode.Turn('', reward, True, valid=True)


@pytest.mark.parametrize(
  'action, seen',
  [
    ('calc(3*5)', '15'),
    ('calc(3/5)', '3/5'),
    ('calc((3*5)+9)', '24'),
    ('calc(2-9)', '-7'),
    ('calc(3/0)', 'error: division by zero'),
    ('calc(x)', FOREIGN),
    ('calc()', "error: calc: 'expression' is a required property"),
    ('calc(3,5)', 'error: use calc(expression)'),
    ('(3*5)+9', 'error: use name(arguments)'),
    ('clac(3)', "error: no tool 'clac'; tools: calc"),
  ],
)
def test_observations(action, seen):
  state, turn = ENV.step(ENV.reset(TASK), action)
  well_formed = action.startswith('calc(') and 'calc' not in seen
  assert turn == episode.Turn(seen, valid=well_formed)
  assert state.tried == ('' if 'error' in seen else action[5:-1])


@pytest.mark.parametrize('numbers', [2, 3, 5])
def test_tasks(numbers):
  env = countdown.make(numbers=numbers)
  problems = {}
  for split in base.SPLITS:
    data = [env.task(split, index).data for index in range(300)]
    problems[split] = {(d['target'], *sorted(d['numbers'])) for d in data}
    for each in data:
      assert len(each['numbers']) == numbers
      assert all(1 <= n <= 20 for n in each['numbers'])
      assert 1 <= each['target'] <= 99
      assert each['target'] not in each['numbers']
  assert not problems[base.TRAIN] & problems[base.HELD_OUT]


def test_an_answer_needs_no_calculator():
  for index in range(100):
    task = ENV.task(base.TRAIN, index)
    _, turn = ENV.step(ENV.reset(task), ENV.answer(task))
    assert (turn.reward, turn.done) == (1.0, True)


def test_the_demonstrator_is_fallible():
  rng = np.random.default_rng(0)
  rewards = [
    base.play(ENV, ENV.task(base.TRAIN, i), lambda s: ENV.noisy(s, rng), 4)[
      -1
    ].turn.reward
    for i in range(1000)
  ]
  assert 0.39 < np.mean(rewards) < 0.49
