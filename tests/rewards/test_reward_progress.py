"""Parts of long tasks, and goals that were reached."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl import episode
from arl.rewards import progress

DONE = st.lists(st.integers(0, 5), min_size=1, max_size=8)


@given(DONE, st.floats(0, 1))
def test_potentials_telescope(done, gamma):
  """The discounted sum is minus the first potential, whatever happened."""
  rewards = progress.potential(done, 5, gamma=gamma)
  total = np.sum(gamma ** np.arange(len(done)) * rewards)
  assert total == pytest.approx(-done[0] / 5)


@given(DONE)
def test_milestones_are_paid_once(done):
  rewards = progress.milestones(done, 5)
  assert np.all(rewards >= 0)
  assert rewards.sum() == pytest.approx(0.1 * max(done) / 5)


@pytest.mark.parametrize(
  'verified, count',
  [([], 0), ([True], 1), ([False, True], 0), ([True, True, False, True], 2)],
)
def test_parts_in_order(verified, count):
  assert progress.in_order(verified) == count


def test_dense():
  assert progress.dense([True, False], 1) == pytest.approx(0.85)
  assert progress.dense([], 1) == pytest.approx(0.7)


def test_guided_pass():
  assert progress.guided_pass(0, 8) == 0
  assert progress.guided_pass(1, 8) == 1


def _same(achieved, goal):
  return float(achieved == goal)


def test_the_final_goal():
  made = progress.final_goal(['a', None, 'b'], _same)
  assert made == [(0, 'b', 0), (1, 'b', 0), (2, 'b', 1)]
  assert progress.final_goal(['a', None], _same) == []
  assert progress.final_goal([], _same) == []


def test_future_goals():
  rng = np.random.default_rng(0)
  made = progress.future_goals(['a', None, 'b', None], _same, rng, goals=50)
  by_step = {
    step: {m.goal for m in made if m.step == step} for step in range(4)
  }
  assert by_step == {0: {'a', 'b'}, 1: {'b'}, 2: {'b'}, 3: set()}
  assert len(made) == 150
  assert all(m.reward == 1 for m in made if m.step == 2)


def _episode():
  return episode.Episode(
    task=episode.Task('t', 'fetch the key', {}),
    sample=0,
    tokens=np.array([1, 2, 3, 4, 5], np.int32),
    mask=np.array([False, False, True, False, True]),
    logp=np.array([0, 0, -1, 0, -2], np.float32),
    rewards=np.array([0, 0, 0.1, 0, 0], np.float32),
    turn=np.array([0, 0, 0, 0, 1], np.int32),
    status=episode.FINISHED,
    extras={'kinds': np.zeros(5)},
  )


def test_an_episode_retold():
  task = episode.Task('u', 'open the door', {})
  made = progress.retold(_episode(), task, np.array([7, 8, 9]), 2, 1.0)
  assert made.task == task
  assert made.tokens.tolist() == [7, 8, 9, 3, 4, 5]
  assert made.mask.tolist() == [False, False, False, True, False, True]
  assert made.rewards.tolist() == [0, 0, 0, 0, 0, 1]
  assert made.turn.tolist() == [0, 0, 0, 0, 0, 1]
  assert np.isnan(made.logp[made.mask]).all()
  assert not made.logp[~made.mask].any()
  assert made.extras == {}


def test_what_the_policy_chose_is_no_prompt():
  task = episode.Task('u', '', {})
  with pytest.raises(ValueError, match='first 3 tokens are not only prompt'):
    progress.retold(_episode(), task, np.array([7]), 3, 1.0)
