"""The arithmetic environment: how replies are read."""

import numpy as np
import pytest

from arl import episode
from arl.envs import arithmetic, base

ENV = arithmetic.make()
TASK = episode.Task(
  'by hand',
  'What is 347 * 589?',
  {'expression': '347 * 589', 'answer': '204383'},
)
CALL_FAULT = 'Error: write CALC(a op b), op one of + - *'
NO_NUMBER = 'Error: write CALC(a op b) or the number'


@pytest.mark.parametrize(
  'reply, text, reward, done',
  [
    ('CALC(347 * 589)', 'Result: 204383', 0.0, False),
    ('CALC(347*589)', 'Result: 204383', 0.0, False),
    ('I use CALC( 347 - 589 ) then say 204383', 'Result: -242', 0.0, False),
    ('CALC(1 + 1) CALC(347 * 589)', 'Result: 2', 0.0, False),
    ('CALC(-3 + -4)', 'Result: -7', 0.0, False),
    ('CALC(a op b) is CALC(2 + 3)', 'Result: 5', 0.0, False),
    ('CALC(347 / 589)', CALL_FAULT, 0.0, False),
    ('CALC(347 * 589', CALL_FAULT, 0.0, False),
    ('CALC(9 * 1234567890123)', CALL_FAULT, 0.0, False),
    ('', NO_NUMBER, 0.0, False),
    ('I do not know.', NO_NUMBER, 0.0, False),
    ('204383', '', 1.0, True),
    ('It is 204,383.', '', 1.0, True),
    ('204383.0', '', 0.0, True),
    ('-204383', '', 0.0, True),
    ('0204383', '', 0.0, True),
    ('2043,83', '', 0.0, True),
    ('347 * 589 = 204383', '', 0.0, True),
    ('5 or 204383', '', 0.0, True),
    ('calc(347 * 589)', '', 0.0, True),
  ],
)
def test_replies(reply, text, reward, done):
  _, turn = ENV.step(ENV.reset(TASK), reply)
  assert turn == episode.Turn(text, reward, done)


@pytest.mark.parametrize('junk', ['CALC( ', 'CALC(', '1,111', '1,', ' ', '-'])
def test_reading_is_linear(junk):
  for reply in (junk * (100_000 // len(junk)), 'CALC(1' + junk[-1] * 100_000):
    _, turn = ENV.step(ENV.reset(TASK), reply)
    assert turn.reward == 0.0


def test_tasks_have_three_digits_and_the_example_has_not():
  for index in range(300):
    task = ENV.task(base.TRAIN, index)
    left, operator, right = task.data['expression'].split()
    assert len(left) == len(right) == 3
    assert operator in '+-*'
    answer = {
      '+': int(left) + int(right),
      '-': int(left) - int(right),
      '*': int(left) * int(right),
    }[operator]
    assert task.data['answer'] == str(answer)
    assert task.prompt == f'What is {left} {operator} {right}?'
    assert task.system == arithmetic.SYSTEM
    assert task.example == arithmetic.EXAMPLE
    assert task.data['expression'] not in task.example[0]


@pytest.mark.parametrize('digits', [1, 3])
def test_splits_share_no_expression(digits):
  env = arithmetic.make(digits=digits)
  train, held_out = (
    {env.task(split, index).data['expression'] for index in range(1000)}
    for split in base.SPLITS
  )
  assert not train & held_out


def test_the_demonstrator_succeeds_two_times_in_five():
  rng = np.random.default_rng(0)
  act = lambda state: ENV.noisy(state, rng)
  rewards = [
    base.play(ENV, ENV.task(base.TRAIN, i), act, 3)[-1].turn.reward
    for i in range(1000)
  ]
  assert 0.36 < np.mean(rewards) < 0.45
