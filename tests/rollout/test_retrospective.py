"""Episodes that failed, told again from their first wrong step."""

import numpy as np
import pytest

from arl import episode
from arl.envs import base, tools
from arl.models import tokenizers
from arl.rollout import chat, engine, retrospective, scripted, strategies

ENV = tools.make(max_hops=1)
LIMITS = strategies.Limits(4, 24, 128, 96)


@pytest.fixture(scope='module')
def made():
  return chat.chat(tokenizers.characters())


def two_steps():
  """A task whose answer is behind one look-up, and its two actions."""
  for index in range(99):
    task = ENV.task(base.TRAIN, index)
    plan = task.data['plan']
    if len(plan) == 1 and plan[0].startswith('get'):
      return task, [plan[0], f'={task.data["answer"]}']
  raise AssertionError


def play(made, says, env=ENV, limits=LIMITS):
  """The one episode of a policy that says these actions in turn."""
  task, _ = two_steps()
  said = iter([made.action(text)[:-1] for text in says])
  (one,) = retrospective.rewritten(
    scripted.ScriptedEngine(lambda request: next(said), 110),
    env,
    made,
    [task],
    strategies.Plan(1, engine.Sampling(), limits, (0,)),
  )
  return one


def learnt(made, one):
  return made.decode(one.tokens[one.mask].tolist())


def test_what_is_right_stays_and_is_not_learnt(made):
  _, right = two_steps()
  one = play(made, right)
  assert not one.mask.any() and episode.total_reward(one) == 1
  assert np.isnan(one.logp).any()


def test_the_last_step_was_wrong(made):
  _, right = two_steps()
  one = play(made, [right[0], '=000'])
  assert learnt(made, one) == right[1]
  assert [e.action for e in one.exchanges] == right
  assert episode.total_reward(one) == 0  # which is what the policy earned
  assert set(one.turn[one.mask]) == {1}
  assert np.isnan(one.logp[one.mask]).all()
  whole = play(made, right)
  np.testing.assert_array_equal(one.tokens, whole.tokens)
  np.testing.assert_array_equal(one.turn, whole.turn)


def test_the_first_step_was_wrong(made):
  _, right = two_steps()
  one = play(made, ['=000'])
  assert learnt(made, one) == ''.join(right)


def test_a_detour_that_can_be_mended_is_kept(made):
  _, right = two_steps()
  one = play(made, ['get(no)', right[0], '=000'])
  assert [e.action for e in one.exchanges] == ['get(no)', *right]
  assert learnt(made, one) == right[1]


def test_what_cannot_be_saved_is_not_learnt(made):
  lost = ENV._replace(oracle=lambda state: '=000')
  one = play(made, ['=111'], lost)
  assert not one.mask.any() and not one.rewards.any()
  tight = LIMITS._replace(context=len(made.opening(two_steps()[0])) + 7)
  assert not play(made, ['=111'], limits=tight).mask.any()


def test_an_environment_that_breaks_gives_no_grade(made):
  def broken(state):
    raise base.EnvironmentFailure('lost')

  one = play(made, ['=111'], ENV._replace(oracle=broken))
  assert one.status == episode.ENVIRONMENT_ERROR and one.error == 'lost'
