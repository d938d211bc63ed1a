"""Rubrics: weights, what cancels, and what is conserved."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl.rewards import rubrics, verdict

FRACTION = st.floats(0, 1)
PAIRS = st.lists(st.tuples(FRACTION, FRACTION), min_size=2, max_size=8)


def test_weighted():
  scores = [verdict.scored(1.0), verdict.scored(0.0)]
  assert rubrics.weighted(scores, [3, 1]).score == 0.75
  failed = rubrics.weighted([*scores, verdict.error('gone')], [1, 1, 1])
  assert failed == verdict.error('a criterion has no score: gone')
  assert rubrics.weighted(scores, [0, 0]).status == verdict.ERROR
  assert rubrics.weighted([], []).status == verdict.ERROR


@given(PAIRS, FRACTION)
def test_a_running_mean_cancels_in_a_group(pairs, mean):
  outcome, score = np.array(pairs).T
  made = rubrics.tcr(outcome, score, mean)
  plain = outcome + 0.5 * score
  np.testing.assert_allclose(
    made - made.mean(), plain - plain.mean(), atol=1e-9
  )


@given(PAIRS)
def test_regression_removes_what_the_outcome_says(pairs):
  outcome, score = np.array(pairs).T
  seen = rubrics.observed(outcome, score)
  rest = rubrics.tcr_regressed(outcome, score, seen) - outcome
  assert np.all(np.isfinite(rest))
  if np.var(outcome) > 1e-6:
    assert np.mean(rest * (outcome - outcome.mean())) == pytest.approx(
      0, abs=1e-6
    )


def test_outcomes_that_are_all_alike():
  seen = rubrics.observed([1, 1], [0.2, 0.4])
  made = rubrics.tcr_regressed([1, 1], [0.2, 0.4], seen)
  np.testing.assert_allclose(made, [0.95, 1.05])


def test_running_means():
  first = rubrics.observed([1.0, 0.0], [1.0, 0.0])
  assert first == (0.5, 0.5, 0.5, 0.5)
  after = rubrics.observed([1.0], [1.0], first, decay=0.9)
  np.testing.assert_allclose(after, 0.55)


def test_a_pitfall_takes_the_rubric():
  assert rubrics.v_rubrics(1, [1, 1], [1, 1]) == 1
  assert rubrics.v_rubrics(1, [1, 1], [1, 1], pitfall=True) == 0.5


def test_the_advantage_of_each_token():
  made = rubrics.v_rubrics_advantage(
    answers=[1, 0],
    scores=np.array([[1.0, 0.5], [0.0, 0.5]]),
    weights=[3, 1],
    ends=np.array([[2, 3], [1, 3]]),
    length=3,
  )
  # The second criterion is alike for both, so it says nothing.
  np.testing.assert_allclose(made, [[0.875, 0.875, 0.5], [-0.875, -0.5, -0.5]])


def test_a_condition_counts_once():
  made = rubrics.trca(
    [0, -1, 0.5], [['a', 'b'], ['a'], ['c', 'other']], ['a', 'b', 'c', 'd']
  )
  np.testing.assert_allclose(made, [0.4, -0.2, 0.1 + 0.2])
  np.testing.assert_allclose(rubrics.trca([1.0], [['a']], []), [0.2])


STEPS = st.lists(
  st.tuples(FRACTION, st.integers(1, 100)), min_size=1, max_size=6
)


@given(st.floats(-3, 3), STEPS)
def test_draco_conserves_the_advantage(advantage, made):
  quality, tokens = np.array(made).T
  each = rubrics.draco(advantage, quality, tokens)
  assert np.sum(tokens * each) == pytest.approx(
    advantage * tokens.sum(), abs=1e-6
  )
  assert np.all(each * advantage >= -1e-12)


def test_draco_without_weights_is_uniform():
  np.testing.assert_array_equal(rubrics.draco(1, [0, 0], [2, 4]), [1, 1])
  np.testing.assert_array_equal(rubrics.draco(-1, [1, 1], [2, 4]), [-1, -1])
  np.testing.assert_array_equal(rubrics.draco(1, [1, 1], [0, 4]), [1, 1])


def test_draco_parts():
  np.testing.assert_allclose(
    rubrics.draco_quality([2, 0, 0], [0, 1, 0]), [1, 0, 0.5]
  )
  np.testing.assert_allclose(rubrics.draco_quality([0], [0]), [1])
  assert rubrics.draco_reward(0, 0) == 0
  passes = np.array([[1, 0, np.nan], [1, 1, 1]])
  np.testing.assert_array_equal(rubrics.telling(passes), [False, True, False])
