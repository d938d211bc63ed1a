"""Skills written about episodes, and tasks to write them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl import episode
from arl.envs import base, hinted, skills, tools

TOOLS = {'name': 'tools.make', 'guess': 0.5}
ENV = skills.make(env=TOOLS, max_turns=5)


def said(*actions):
  return [episode.Exchange(a, episode.Turn('731')) for a in actions]


@pytest.mark.parametrize(
  'actions, kinds',
  [
    (['get(abc.pin)', 'get(xyz.pin)', '=731'], 'get ='),
    (['=731'], '='),
    ([' move left', 'move up', 'stop', 'move'], 'move stop move'),
    (['', ' '], 'nothing'),
    ([], 'nothing'),
  ],
)
def test_a_skill_names_the_actions_without_what_is_theirs(actions, kinds):
  assert skills.written(said(*actions), True) == f'do: {kinds}'
  assert skills.written(said(*actions), False) == f'avoid: {kinds}'


@given(st.lists(st.text(max_size=6), max_size=4), st.booleans())
def test_what_is_written_is_read(actions, solved):
  text = skills.written(said(*actions), solved)
  assert skills.read(f' {text}\n') == text


@pytest.mark.parametrize(
  'text', ['', 'get =', 'do:', 'do: ', 'avoid get', 'do: a\nb', 'so do: a']
)
def test_what_is_no_skill(text):
  assert skills.read(text) is None


def test_a_task_shows_an_episode_and_what_became_of_it():
  seen = set()
  for index in range(40):
    task, inner = ENV.task(base.TRAIN, index), tools.make().task('train', index)
    last, became = task.prompt.split('\n')[-2:]
    right = last == f'- ={inner.data["answer"]}'
    assert became == ('right' if right else 'wrong')
    assert task.prompt.startswith(f'skill\n? {inner.prompt}\n- ')
    assert ENV.oracle(task).startswith('do: ' if right else 'avoid: ')
    assert task.id == f'skill/{inner.id}' and task == ENV.task('train', index)
    seen.add(ENV.oracle(task))
  assert {'do: get =', 'do: calc =', 'avoid: ='} <= seen


def test_a_skill_is_graded():
  task = ENV.task(base.HELD_OUT, 3)
  right = ENV.oracle(task)
  assert right == ENV.noisy(task, np.random.default_rng(0)) == ENV.answer(task)
  for text, reward in ((right, 1), (f'{right} ', 1), ('do: x', 0), ('', 0)):
    _, turn = ENV.step(ENV.reset(task), text)
    assert (turn.reward, turn.done) == (reward, True)


def test_a_hint_is_the_skill_of_the_demonstrator():
  """The same episode of a task is shown, written about and hinted at."""
  env = hinted.make(env=TOOLS, hint='skill')
  for index in range(5):
    right = ENV.oracle(ENV.task(base.TRAIN, index))
    assert env.task(base.TRAIN, index).prompt.startswith(f'hint: {right}\n')


def test_blocks_that_mean_nothing():
  with pytest.raises(ValueError, match='skills: env needs a name'):
    skills.make(env={}, max_turns=5)
  with pytest.raises(ValueError, match='max_turns is 0; give 1 or more'):
    skills.make(env=TOOLS, max_turns=0)
