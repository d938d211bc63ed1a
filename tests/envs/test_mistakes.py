"""The first wrong action of a failure, asked for and read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl.envs import base, keydoor, mistakes

KEYDOOR = {'name': 'keydoor.make', 'length': 1, 'fault': 0.4}
ENV = mistakes.make(env=KEYDOOR, max_turns=6)


@given(st.integers(0, 30), st.integers(1, 40))
def test_what_is_said_is_read(turn, turns):
  for text in (mistakes.said(turn), f' action {mistakes.said(turn)}.\n'):
    assert mistakes.read(text, turns) == (turn if turn < turns else None)


@pytest.mark.parametrize('text', ['', 'none', '0', '1 or 2', '-', '99'])
def test_what_names_no_turn(text):
  assert mistakes.read(text, 5) is None


def test_a_number_that_is_said_twice_is_one():
  assert mistakes.read('2: the answer is 2', 5) == 1


def test_tasks_are_failures_whose_first_departure_is_the_answer():
  inner = keydoor.make(length=1, fault=0.4)
  answers = set()
  for index in range(30):
    task = ENV.task(base.TRAIN, index)
    assert task == ENV.task(base.TRAIN, index)
    actions = [
      line.split(' ', 2)[2]
      for line in task.prompt.splitlines()
      if line.startswith('- ')
    ]
    state = inner.reset(inner.task(base.TRAIN, index))
    earned, departed = 0.0, None
    for turn, action in enumerate(actions):
      if departed is None and action != inner.oracle(state):
        departed = turn
      state, answer = inner.step(state, action)
      earned += answer.reward
    assert earned == 0 and departed == task.data['first']
    assert ENV.oracle(task) == str(departed + 1)
    _, right = ENV.step(task, ENV.oracle(task))
    _, wrong = ENV.step(task, str(departed + 2))
    assert (right.reward, right.done, wrong.reward) == (1.0, True, 0.0)
    answers.add(departed)
  assert len(answers) > 2


def test_an_episode_of_the_oracle_has_no_mistake():
  inner = keydoor.make(length=1)
  task, states = inner.task(base.TRAIN, 0), []

  def act(state):
    states.append(state)
    return inner.oracle(state)

  played = base.play(inner, task, act, 10)
  assert mistakes.first(inner, states, played) is None
  changed = [*played[:2], played[2]._replace(action='take it')]
  assert mistakes.first(inner, states, changed) == 2


def test_a_demonstrator_that_does_not_fail_is_refused():
  env = {'name': 'keydoor.make', 'length': 1, 'fault': 0.0}
  made = mistakes.make(env=env, max_turns=5)
  with pytest.raises(ValueError, match='no mistake that it failed by'):
    made.task(base.TRAIN, 0)
  with pytest.raises(ValueError, match='max_turns is 0'):
    mistakes.make(env=env, max_turns=0)
