"""The mathematics of a search: worked numbers, means and bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl.rollout import trees

UNIT = st.floats(0, 1)
ACTIONS = st.lists(st.tuples(UNIT, UNIT, st.integers(0, 9)), min_size=1)


def columns(actions):
  return [np.array(x, float) for x in zip(*actions)]


def test_worked_numbers():
  value, ranked = np.array([0.8, 0.2, 0.5]), np.array([0.6, 0.4, 0.5])
  worth = trees.blend(value, ranked, 0.5)
  np.testing.assert_allclose(worth, [0.7, 0.3, 0.5])
  np.testing.assert_allclose(
    trees.upper(worth, np.array([5, 3, 2]), 1.0),
    [1.319487, 1.058714, 1.376087],
    atol=1e-6,
  )


def test_a_ranking():
  np.testing.assert_allclose(trees.reciprocal([2, 0, 1]), [1 / 2, 1 / 3, 1])
  assert trees.reciprocal([]).shape == (0,)
  for bad in ([0, 0], [1, 2], [0, 2, 1, 4]):
    with pytest.raises(ValueError, match='must name each of 0 to'):
      trees.reciprocal(bad)


@given(st.lists(UNIT, min_size=1))
def test_backed_up_one_by_one_outcomes_have_their_mean(outcomes):
  value = 0.0
  for visits, outcome in enumerate(outcomes):
    value = trees.backup(value, visits, outcome)
  np.testing.assert_allclose(value, np.mean(outcomes))


@given(ACTIONS, UNIT)
def test_a_blend_lies_between_its_parts(actions, alpha):
  value, ranked, _ = columns(actions)
  made = trees.blend(value, ranked, alpha)
  low, high = np.minimum(value, ranked), np.maximum(value, ranked)
  assert np.all((low - 1e-12 <= made) & (made <= high + 1e-12))
  np.testing.assert_array_equal(trees.blend(value, None, alpha), value)
  np.testing.assert_array_equal(trees.blend(value, ranked, 1.0), value)
  np.testing.assert_array_equal(trees.blend(value, ranked, 0.0), ranked)


@given(ACTIONS, UNIT)
def test_a_bound_is_above_and_the_less_so_the_more_was_seen(actions, c):
  worth, _, visits = columns(actions)
  bonus = trees.upper(worth, visits, c) - worth
  assert np.all(bonus >= 0) and np.all(np.isfinite(bonus))
  order = np.argsort(visits)
  assert np.all(np.diff(bonus[order]) <= 1e-12)
  np.testing.assert_array_equal(trees.upper(worth, visits, 0.0), worth)
  np.testing.assert_array_equal(trees.upper(worth, 0 * visits, c), worth)
