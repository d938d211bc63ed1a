"""Tasks that ask for a judgement of a demonstrator's episode."""

import numpy as np
import pytest

from arl.envs import base, judging, tools
from arl.rewards import judgements

TOOLS = {'name': 'tools.make', 'guess': 0.5}
SHORT = {'env': TOOLS, 'form': 'judgements.short', 'max_turns': 5}
ENV = judging.make(**SHORT)


def test_the_right_judgement_is_what_was_earned():
  """The prompt shows the answer that the inner task has, or another."""
  points = []
  for index in range(60):
    task, inner = ENV.task(base.TRAIN, index), tools.make().task('train', index)
    last = task.prompt.rsplit('\n', 1)[1]
    right = last == f'- ={inner.data["answer"]}'
    assert task.id == f'judging/{inner.id}'
    assert task.prompt.startswith(f'judge\n? {inner.prompt}\n- ')
    assert task.data == {'points': judgements.POINTS * right}
    points.append(task.data['points'])
  assert 0.2 < np.mean(points) / judgements.POINTS < 0.8


def test_a_judgement_is_graded():
  task = ENV.task(base.HELD_OUT, 3)
  state, right = ENV.reset(task), ENV.oracle(task)
  assert right == str(task.data['points']) == ENV.answer(task)
  assert ENV.noisy(state, np.random.default_rng(0)) == right
  for text, reward in ((right, 1), ('3', 0), ('no', 0), ('', 0)):
    _, turn = ENV.step(state, text)
    assert (turn.reward, turn.done) == (reward, True)


def test_a_task_of_an_index_is_the_same_for_ever():
  again = judging.make(**SHORT)
  assert again.task('train', 7) == ENV.task('train', 7)
  assert ENV.task('train', 7) != ENV.task('held_out', 7)


def test_other_forms():
  env = judging.make(**{**SHORT, 'form': 'judgements.rubric'})
  task = env.task(base.TRAIN, 0)
  assert 'Rubric' in task.prompt and task.system
  assert env.step(env.reset(task), env.oracle(task))[1].reward == 1


def test_blocks_that_mean_nothing():
  with pytest.raises(ValueError, match='judging: env needs a name'):
    judging.make(**{**SHORT, 'env': {}})
  with pytest.raises(ValueError, match="did you mean 'judgements.short'"):
    judging.make(**{**SHORT, 'form': 'judgements.shrt'})
  with pytest.raises(ValueError, match='max_turns is 0; give 1 or more'):
    judging.make(**{**SHORT, 'max_turns': 0})
