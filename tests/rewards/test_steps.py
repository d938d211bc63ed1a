"""Credit of steps: sums that stay what they are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl.rewards import steps

SCORES = st.lists(st.floats(-1, 1), min_size=1, max_size=8)
GROUP = st.lists(SCORES, min_size=1, max_size=5)


@given(SCORES)
def test_the_sum_is_near_the_minimum(scores):
  total = steps.min_form(scores).sum()
  assert total >= min(scores) - 1e-9
  assert total <= np.mean(scores) + 1e-9
  cold = steps.min_form(scores, temperature=1e-6)
  assert cold.sum() == pytest.approx(min(scores), abs=1e-4)


def test_one_step_and_none():
  np.testing.assert_array_equal(steps.min_form([0.3]), [0.3])
  assert steps.min_form([]).shape == (0,)
  assert steps.pure([[], [0.5]])[0].shape == (0,)


def test_ties_share():
  np.testing.assert_allclose(
    steps.min_form([-1, -1, 1], temperature=1e-3), [-0.5, -0.5, 0]
  )


def test_pure_by_hand():
  group = [[0.5], [-0.5, 1.0]]
  second = steps.min_form(group[1])
  made = steps.pure(group, [True, False], coef=2.0)
  np.testing.assert_allclose(made[0], [0.5 - second.sum() / 2 + 2])
  np.testing.assert_allclose(
    made[1], [second.sum() - 2 * 0.5 - 2, second[1] - 0.5 - 2]
  )


@given(SCORES)
def test_one_alone_has_no_baseline(scores):
  (made,) = steps.pure([scores], [False])
  np.testing.assert_allclose(
    made, steps.to_go(steps.min_form(scores)) - 1, atol=1e-12
  )


@given(GROUP)
def test_belief_shifts_telescope(group):
  for beliefs in group:
    total = steps.belief_shifts(beliefs).sum()
    assert total == pytest.approx(beliefs[-1] - beliefs[0], abs=1e-9)


@given(GROUP)
def test_belief_bonuses_are_normalized(group):
  made = np.concatenate(steps.vps(group))
  assert np.all(np.isfinite(made))
  if made.size:
    assert made.mean() == pytest.approx(0, abs=1e-6)
    assert made.std() == pytest.approx(0.3, abs=1e-6) or not made.any()


def test_equal_shifts_earn_nothing():
  np.testing.assert_array_equal(steps.vps([[0, 0.5, 1.0], [0.25, 0.75]])[0], 0)


LOGPS = st.lists(st.floats(-1e4, 0), min_size=1, max_size=5)


@given(st.floats(-1, 1), LOGPS, LOGPS, st.floats(0, 1))
def test_self_aligned_is_bounded(reward, alone, given_it, coef):
  made = steps.self_aligned(reward, alone, given_it, coef=coef)
  assert abs(made - reward) <= coef + 1e-12


def test_self_aligned_without_an_answer():
  assert steps.self_aligned(0.5, [], []) == 0.5
