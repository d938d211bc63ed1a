"""Two policies by pass@k: where they cross, what only one of them solves."""

import math

import numpy as np
import pytest

from arl.evaluate import ceiling, estimators


def test_the_powers_stop_at_half_of_the_samples():
  assert ceiling.powers([(16, 1), (20, 3)]) == [1, 2, 4, 8]
  assert ceiling.powers([(2, 1)]) == [1]


def test_the_table_is_pass_at_k():
  counts = [(8, 2), (8, 0)]
  got = ceiling.table(counts, [1, 4])
  expected = [[estimators.pass_at_k(8, c, k) for k in (1, 4)] for c in (2, 0)]
  np.testing.assert_array_equal(got, expected)


def test_coverage_counts_each_problem_once():
  base = [(8, 1), (8, 1), (8, 0), (8, 0), (8, 8)]
  trained = [(8, 8), (8, 0), (8, 3), (8, 0), (8, 8)]
  got = ceiling.coverage(base, trained)
  assert got == ceiling.Coverage(2, 1, 1, 1)
  assert sum(got) == len(base)
  with pytest.raises(ValueError, match='sample both alike'):
    ceiling.coverage(base, trained[:-1])
  with pytest.raises(ValueError, match='sample both alike'):
    ceiling.coverage(base, [(4, 0), *trained[1:]])


@pytest.mark.parametrize(
  'base, trained, expected',
  [
    ([0.2, 0.5, 0.9], [0.5, 0.6, 0.8], 4),
    ([0.2, 0.5, 0.9], [0.5, 0.5, 0.8], 2),
    ([0.2, 0.5, 0.7], [0.5, 0.6, 0.8], math.inf),
    ([0.6, 0.7, 0.8], [0.5, 0.6, 0.7], 1),
    ([0.6, 0.5, 0.8], [0.5, 0.6, 0.7], 4),  # the last time counts
  ],
)
def test_a_crossing_by_hand(base, trained, expected):
  got = ceiling.crossing(np.array(base), np.array(trained), [1, 2, 4])
  assert got == expected


def solved(rates, n, seed):
  rng = np.random.default_rng(seed)
  return [(n, int(rng.binomial(n, p))) for p in rates]


def test_the_interval_holds_the_crossing_of_policies_that_are_known():
  """Sure on most problems and lost on some, against unsure on all."""
  ks = [1, 2, 4, 8, 16]
  exact = lambda rates, k: np.mean([1 - (1 - p) ** k for p in rates])
  unsure, sure = [0.3] * 40, [0.9] * 36 + [0.0] * 4
  truth = next(k for k in ks if exact(unsure, k) >= exact(sure, k))
  one = ceiling.table(solved(unsure, 64, 0), ks)
  other = ceiling.table(solved(sure, 64, 1), ks)
  low, high = ceiling.crossing_interval(one, other, ks, seed=0, draws=500)
  assert low <= truth <= high < math.inf
  same = ceiling.crossing_interval(one, other, ks, seed=0, draws=500)
  assert (low, high) == same


def test_who_is_always_ahead_is_not_crossed():
  ks = [1, 2]
  base, trained = np.zeros((5, 2)), np.ones((5, 2))
  interval = ceiling.crossing_interval(base, trained, ks, seed=0, draws=50)
  assert interval == (math.inf, math.inf)


def test_gains_are_paired_by_problem():
  rng = np.random.default_rng(0)
  base = rng.random((30, 3))
  gain = ceiling.gains(base, base + 0.1, seed=0, draws=200)
  np.testing.assert_allclose(gain, 0.1)
  other = ceiling.gains(base, rng.random((30, 3)), seed=0, draws=200)
  assert np.all(other[1] < other[0]) and np.all(other[0] < other[2])
