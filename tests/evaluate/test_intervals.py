import math

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from arl.evaluate import intervals

# Two-sided 95 % points of Student's t, as printed in tables.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


@pytest.mark.parametrize(
  'successes, n, low, high',
  [
    (45, 50, 0.78640, 0.95652),
    (0, 10, 0.0, 0.27753),
    (10, 10, 0.72247, 1.0),
    (1, 2, 0.09453, 0.90547),
  ],
)
def test_wilson_at_95(successes, n, low, high):
  assert intervals.wilson(successes, n) == pytest.approx((low, high), abs=5e-6)


def test_wilson_at_90():
  got = intervals.wilson(45, 50, 0.9)
  assert got == pytest.approx((0.80846, 0.95047), abs=5e-6)


@hypothesis.given(n=st.integers(1, 500), data=st.data())
def test_wilson_ends_solve_the_score_equation(n, data):
  successes = data.draw(st.integers(0, n))
  low, high = intervals.wilson(successes, n)
  rate = successes / n
  assert 0 <= low <= rate <= high <= 1
  for end in (low, high):
    if 0 < end < 1:
      error = math.sqrt(end * (1 - end) / n)
      assert abs(rate - end) / error == pytest.approx(1.959964, rel=1e-5)


@hypothesis.given(n=st.integers(1, 500), data=st.data())
def test_wilson_mirrors(n, data):
  successes = data.draw(st.integers(0, n))
  low, high = intervals.wilson(successes, n)
  other = intervals.wilson(n - successes, n)
  assert other == pytest.approx((1 - high, 1 - low))


@pytest.mark.parametrize('successes, n', [(1, 0), (0, 0), (-1, 5), (6, 5)])
def test_wilson_refuses_counts(successes, n):
  with pytest.raises(ValueError, match='successes'):
    intervals.wilson(successes, n)


@pytest.mark.parametrize('level', [0, 1, 95, math.nan])
def test_levels_are_fractions(level):
  with pytest.raises(ValueError, match='between 0 and 1'):
    intervals.wilson(1, 2, level)
  with pytest.raises(ValueError, match='between 0 and 1'):
    intervals.bootstrap_mean([1.0, 2.0], 0, level)


@pytest.mark.parametrize('df, table', list(enumerate(T_975, start=1)))
def test_t_quantile_of_the_tables(df, table):
  assert intervals.t_quantile(0.975, df) == pytest.approx(table, abs=5e-4)


@pytest.mark.parametrize(
  'probability, df, expected',
  [
    (0.5, 3, 0.0),
    (0.75, 1, 1.0),  # the quartile of Cauchy
    (0.95, 2, 0.9 * math.sqrt(2 / (1 - 0.81))),
    (0.99, 30, 2.457),
    (0.975, 1000, 1.962),
  ],
)
def test_t_quantile_elsewhere(probability, df, expected):
  got = intervals.t_quantile(probability, df)
  assert got == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize('probability, df', [(0.975, 0), (1, 3), (0.2, 3)])
def test_t_quantile_refuses(probability, df):
  with pytest.raises(ValueError, match='t_quantile'):
    intervals.t_quantile(probability, df)


def test_mean_and_t_by_hand():
  # Deviations -1, 0, 1: variance 1, error 1/sqrt(3), t of 2 degrees 4.30265.
  mean, low, high = intervals.mean_and_t([1.0, 2.0, 3.0])
  assert mean == 2
  assert (low, high) == pytest.approx((-0.484138, 4.484138), abs=1e-6)


@pytest.mark.parametrize('values', [[1.0], [], [1.0, math.nan], [[1.0, 2.0]]])
def test_mean_and_t_refuses(values):
  with pytest.raises(ValueError, match='mean_and_t'):
    intervals.mean_and_t(values)


def test_bootstrap_is_the_normal_interval_for_many_values():
  values = np.random.default_rng(0).normal(3, 2, 400)
  low, high = intervals.bootstrap_mean(values, seed=1, draws=2000)
  half = 1.96 * values.std() / 20
  assert low == pytest.approx(values.mean() - half, abs=0.02)
  assert high == pytest.approx(values.mean() + half, abs=0.02)


def test_bootstrap_of_two_values_by_enumeration():
  # The mean of two draws of {0, 1} is 0, 1/2, 1 with chances 1/4, 1/2, 1/4.
  assert intervals.bootstrap_mean([0.0, 1.0], 0, 0.4, 2000) == (0.5, 0.5)
  assert intervals.bootstrap_mean([0.0, 1.0], 0, 0.6, 2000) == (0.0, 1.0)


def test_bootstrap_repeats_with_its_seed():
  values = [0.0, 1.0, 4.0, 9.0]
  first = intervals.bootstrap_mean(values, 7, draws=200)
  assert first == intervals.bootstrap_mean(values, 7, draws=200)
  assert first != intervals.bootstrap_mean(values, 8, draws=200)
  assert intervals.bootstrap_mean([2.0], 0, draws=10) == (2.0, 2.0)


def test_bootstrap_refuses():
  with pytest.raises(ValueError, match='at least 1 finite'):
    intervals.bootstrap_mean([], 0)
  with pytest.raises(ValueError, match='draws=0'):
    intervals.bootstrap_mean([1.0], 0, draws=0)


@pytest.mark.parametrize(
  'values, want',
  [
    ([0.4], 0.4),
    ([0.2, 0.8], 0.5),
    ([0.0, 0.6, 0.9], (0.6 / 3 + (0.0 + 0.9) / 12) / 0.5),
    ([9, 1, 3, 2], 2.5),  # the middle two
    ([0, 0, 1, 2, 3, 4, 100, 100], 2.5),
  ],
)
def test_interquartile_means_by_hand(values, want):
  assert intervals.interquartile_mean(values) == pytest.approx(want)


def test_one_run_that_failed_moves_it_little():
  good = [0.9, 0.91, 0.92, 0.93]
  both = [intervals.interquartile_mean([first, *good]) for first in (0, 0.89)]
  assert both[0] == pytest.approx(both[1], abs=0.1)
  assert np.mean([0, *good]) < 0.75


def test_the_interval_of_rates_covers_them():
  low, high = intervals.bootstrap_rates([(256, 230), (256, 240), (256, 235)], 0)
  assert 0.86 < low < 0.918 < high < 0.96
  same = intervals.bootstrap_rates([(256, 230), (256, 240), (256, 235)], 0)
  assert same == (low, high)
  assert intervals.bootstrap_rates([(10, 10)] * 3, 0) == (1, 1)
  narrow = intervals.bootstrap_rates([(10_000, 9_000)] * 3, 0)
  assert narrow[1] - narrow[0] < 0.02


def test_the_interval_of_a_gain():
  before, after = [(256, 100), (256, 90)], [(256, 230), (256, 200)]
  low, high = intervals.bootstrap_gain(before, after, 0)
  assert 0.3 < low < (430 - 190) / 512 < high < 0.6
  with pytest.raises(ValueError, match='2 runs before and 1 after'):
    intervals.bootstrap_gain(before, after[:1], 0)
