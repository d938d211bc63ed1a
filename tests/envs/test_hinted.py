"""Hints before a prompt, and a demonstrator who acts on them."""

import numpy as np
import pytest

from arl.envs import base, hinted, tools

TOOLS = {'name': 'tools.make', 'guess': 0.5}


def first_look_up(env, hops=1):
  """The first task with so many pointers to follow."""
  for index in range(100):
    task = env.task(base.TRAIN, index)
    if len(task.data['plan']) == hops + 1:
      return index, task
  raise AssertionError('there is one')


def test_the_hint_stands_before_the_prompt():
  plain = tools.make()
  index, task = first_look_up(plain)
  for hint, text in (
    ('answer', f'={task.data["answer"]}'),
    ('steps', ' '.join([*task.data['plan'], f'={task.data["answer"]}'])),
  ):
    made = hinted.make(env=TOOLS, hint=hint).task(base.TRAIN, index)
    assert made.prompt == f'hint: {text}\n{task.prompt}'
    assert made == hinted.told(task, text)._replace(
      id=f'hinted/{task.id}', data={**task.data, 'hint': text}
    )


@pytest.mark.parametrize(
  'hint, turns', [('answer', 1), ('steps', 3), ('skill', 3)]
)
def test_the_demonstrator_acts_on_it(hint, turns):
  env = hinted.make(env=TOOLS, hint=hint)
  _, task = first_look_up(env)
  rng = np.random.default_rng(0)
  played = base.play(env, task, lambda state: env.noisy(state, rng), 9)
  assert len(played) == turns
  assert played[-1].turn.reward == 1


def test_the_rest_is_as_without_hints():
  env, plain = hinted.make(env=TOOLS, hint='answer'), tools.make(guess=0.5)
  index, task = first_look_up(env)
  inner = plain.task(base.TRAIN, index)
  state = env.reset(task)
  assert state == hinted.State(inner, plain.reset(inner))
  assert env.anchor(state) == inner.prompt
  assert env.answer(task) == plain.answer(inner)
  played = base.play(env, task, env.oracle, 9)
  assert played == base.play(plain, inner, plain.oracle, 9)
  assert env.parts is plain.parts and env.scores_steps


def mute():
  return tools.make()._replace(answer=None, anchor=None)


def test_what_the_environment_lacks():
  env = hinted.make(env={'name': 'test_hinted.mute'}, hint='steps')
  assert env.answer is None and env.anchor is None
  assert env.task(base.TRAIN, 0).prompt.startswith('hint: ')
  env = hinted.make(env={'name': 'test_hinted.mute'}, hint='answer')
  with pytest.raises(ValueError, match='no reference answers'):
    env.task(base.TRAIN, 0)


def test_blocks_that_mean_nothing():
  with pytest.raises(ValueError, match="no hint 'anwser'; did you mean 'answe"):
    hinted.make(env=TOOLS, hint='anwser')
  with pytest.raises(ValueError, match='hinted: env needs a name'):
    hinted.make(env={}, hint='steps')
