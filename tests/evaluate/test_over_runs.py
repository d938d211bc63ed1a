"""Statistics over few runs: by hand, against scipy, and their laws."""

import hypothesis
import numpy as np
import pytest
import scipy.stats
from hypothesis import strategies as st

from arl.evaluate import over_runs

SURE = 10**9  # graded tasks: as good as an exact score
FEW = hypothesis.settings(max_examples=25, deadline=None)


@st.composite
def tables(draw, kinds=None):
  """Outcomes of some runs, on some kinds or on so many."""
  shape = draw(st.integers(1, 4)), kinds or draw(st.integers(1, 3))
  size = shape[0] * shape[1]
  graded = draw(st.lists(st.integers(1, 40), min_size=size, max_size=size))
  solved = [draw(st.integers(0, n)) for n in graded]
  return over_runs.outcomes(
    np.reshape(graded, shape), np.reshape(solved, shape)
  )


def exact(rates):
  """Outcomes whose scores are these rates, and certain."""
  rates = np.asarray(rates)
  graded = np.full(rates.shape, SURE)
  return over_runs.outcomes(graded, np.round(rates * SURE).astype(int))


# The interquartile mean.


def test_interquartile_mean_of_two_runs_on_four_kinds():
  found = exact([[0.1, 0.9, 0.4, 0.6], [0.2, 0.8, 0.5, 0.7]])
  middle, (low, high) = over_runs.interquartile_mean(found, seed=0)
  # Of eight scores the middle four are 0.4, 0.5, 0.6 and 0.7.
  assert middle == pytest.approx(0.55)
  assert low <= middle <= high


@pytest.mark.parametrize('shape', [(4, 1), (2, 4), (3, 4), (4, 5)])
def test_interquartile_mean_is_scipys_trimmed_mean(shape):
  """Where a quarter of the scores is a whole number of them."""
  rates = np.random.default_rng(0).random(shape)
  middle, _ = over_runs.interquartile_mean(exact(rates), seed=0)
  want = scipy.stats.trim_mean(rates.ravel(), 0.25)
  assert middle == pytest.approx(want, abs=1e-8)


@FEW
@hypothesis.given(found=tables())
def test_interquartile_mean_lies_between_and_no_order_matters(found):
  middle, interval = over_runs.interquartile_mean(found, seed=0, draws=50)
  scores = over_runs.scores(found)
  assert scores.min() - 1e-12 <= middle <= scores.max() + 1e-12
  assert 0 <= interval[0] <= interval[1] <= 1
  turned = over_runs.Outcomes(*(x[::-1, ::-1] for x in found))
  again, _ = over_runs.interquartile_mean(turned, seed=0, draws=50)
  assert again == pytest.approx(middle)
  fewer = over_runs.Outcomes(*(np.vstack([x, x]) for x in found))
  same, _ = over_runs.interquartile_mean(fewer, seed=0, draws=50)
  assert same == pytest.approx(middle)  # what is twice there weighs the same


# The bootstrap.


def test_kinds_of_a_run_are_drawn_together():
  """Of runs that are all right or all wrong a resample is 0, 1/2 or 1."""
  found = exact([[0.0, 0.0], [1.0, 1.0]])
  drawn = over_runs.resampled(found, np.random.default_rng(0), 4000)
  means = drawn.mean(axis=(1, 2))
  values, counts = np.unique(means, return_counts=True)
  assert values.tolist() == [0, 0.5, 1]
  assert counts / 4000 == pytest.approx([0.25, 0.5, 0.25], abs=0.03)
  # Drawn apart, kinds would meet in quarters too.
  assert (drawn[..., 0] == drawn[..., 1]).all()


@FEW
@hypothesis.given(found=tables(), seed=st.integers(0, 3))
def test_a_resample_keeps_kinds_apart(found, seed):
  """Scores stay multiples of their kind's number, and certain ones certain."""
  one = over_runs.Outcomes(found.graded[:1], found.solved[:1])
  drawn = over_runs.resampled(one, np.random.default_rng(seed), 20)
  whole = drawn * one.graded
  assert whole == pytest.approx(np.round(whole))
  scores = over_runs.scores(one)[0]
  for kind, score in enumerate(scores):
    if score in (0, 1):
      assert (drawn[..., kind] == score).all()


def test_the_spread_within_a_run_is_that_of_a_binomial():
  found = over_runs.outcomes([[100, 25]], [[20, 20]])
  drawn = over_runs.resampled(found, np.random.default_rng(0), 20_000)[:, 0]
  assert drawn.mean(0) == pytest.approx([0.2, 0.8], abs=0.003)
  assert drawn.std(0) == pytest.approx([0.04, 0.08], rel=0.03)


def test_more_runs_make_the_interval_narrower():
  rates = np.random.default_rng(0).random((40, 2))
  wide, narrow = (
    over_runs.interquartile_mean(exact(rates[:n]), seed=0)[1] for n in (4, 40)
  )
  assert narrow[1] - narrow[0] < 0.6 * (wide[1] - wide[0])


def test_equal_seeds_give_equal_intervals():
  found = over_runs.outcomes([[997, 991], [977, 983]], [[50, 300], [550, 200]])
  one, two, other = (
    over_runs.interquartile_mean(found, seed=seed)[1] for seed in (0, 0, 1)
  )
  assert one == two != other


# Performance profiles.


def test_a_profile_by_hand():
  found = exact([[0.2, 0.5], [0.5, 0.9]])
  made = over_runs.profile(found, [0, 0.2, 0.49, 0.5, 0.9], seed=0)
  assert made.share.tolist() == [1, 0.75, 0.75, 0.25, 0]


@FEW
@hypothesis.given(found=tables())
def test_profiles_fall_and_lie_in_their_bands_between_0_and_1(found):
  at = np.linspace(0, 1, 21)
  made = over_runs.profile(found, at, seed=0, draws=100)
  for line in made[1:]:
    assert (np.diff(line) <= 1e-12).all() and (line >= 0).all()
    assert line[-1] == 0  # nothing is above 1
  assert (made.low <= made.high).all()
  area = np.trapezoid(made.share, at)  # the mean score, to half a step
  assert area == pytest.approx(over_runs.scores(found).mean(), abs=0.051)


# The probability of improvement.


def test_improvement_by_hand():
  ours, theirs = (
    exact([[0.5, 0.1], [0.9, 0.3]]),
    exact([[0.5, 0.2], [0.6, 0.2]]),
  )
  value, (low, high) = over_runs.improvement(ours, theirs, seed=0)
  # First kind: a tie, a loss, two wins: 2.5 of 4. Second: two of four.
  assert value == pytest.approx((2.5 / 4 + 2 / 4) / 2)
  assert 0 <= low <= value <= high <= 1


def test_improvement_is_the_mann_whitney_statistic_over_pairs():
  rng = np.random.default_rng(0)
  ours, theirs = rng.integers(0, 6, (5, 3)) / 6, rng.integers(0, 6, (4, 3)) / 6
  value, _ = over_runs.improvement(exact(ours), exact(theirs), seed=0)
  pairs = [
    scipy.stats.mannwhitneyu(ours[:, k], theirs[:, k]).statistic / 20
    for k in range(3)
  ]
  assert value == pytest.approx(np.mean(pairs))


@FEW
@hypothesis.given(data=st.data(), kinds=st.integers(1, 3))
def test_improvement_over_oneself_is_a_half_and_sides_are_opposite(data, kinds):
  ours, theirs = (data.draw(tables(kinds)) for _ in range(2))
  of = lambda a, b: over_runs.improvement(a, b, seed=0, draws=100)
  assert of(ours, ours)[0] == pytest.approx(0.5)
  one, other = of(ours, theirs), of(theirs, ours)
  assert one[0] == pytest.approx(1 - other[0])
  assert 0 <= one[1][0] <= one[1][1] <= 1


def test_every_pair_is_won():
  ours, theirs = exact([[0.8], [0.9]]), exact([[0.1], [0.2], [0.3]])
  assert over_runs.improvement(ours, theirs, seed=0) == (1, (1, 1))
  assert over_runs.improvement(theirs, ours, seed=0) == (0, (0, 0))


def test_a_lead_within_the_noise_of_tasks_is_no_certain_one():
  """Every run of ours is ahead, by one task of sixteen."""
  ours, theirs = (over_runs.outcomes([[16]] * 3, [[n]] * 3) for n in (12, 11))
  value, (low, high) = over_runs.improvement(ours, theirs, seed=0)
  assert value == 1 and low < 0.5 < high


# What is refused.


@pytest.mark.parametrize(
  'graded, solved, words',
  [
    ([[4, 4]], [[1], [2]], r'shape \(1, 2\) and \(2, 1\)'),
    ([4, 4], [1, 2], r'two of \[runs, kinds\]'),
    ([[]], [[]], 'not empty'),
    ([[4]], [[5]], 'solved <= graded'),
    ([[4]], [[-1]], 'solved <= graded'),
    ([[0]], [[0]], 'graded >= 1'),
  ],
)
def test_tables_that_are_none(graded, solved, words):
  with pytest.raises(ValueError, match=words):
    over_runs.outcomes(graded, solved)


def test_other_kinds_are_not_compared():
  ours, theirs = exact([[0.5]]), exact([[0.5, 0.5]])
  with pytest.raises(ValueError, match='1 kinds of tasks against 2'):
    over_runs.improvement(ours, theirs, seed=0)


def test_numbers_of_rliable():
  """Of rliable 1.2.0, which needs arch 7, and that pandas older than 3."""
  ours, theirs = (
    over_runs.outcomes(np.full((n, 4), 64), solved)
    for n, solved in (
      (
        4,
        [[12, 40, 33, 7], [15, 44, 20, 9], [10, 50, 28, 16], [18, 39, 31, 11]],
      ),
      (3, [[20, 40, 30, 7], [15, 41, 22, 8], [12, 48, 35, 10]]),
    )
  )
  assert over_runs.interquartile_mean(ours, seed=0)[0] == 0.337890625
  better = over_runs.improvement(ours, theirs, seed=0)[0]
  assert better == pytest.approx(0.47916666666666663)
  at = [0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9]
  share = over_runs.profile(ours, at, seed=0).share
  assert share.tolist() == [1, 1, 0.6875, 0.5, 0.3125, 0.0625, 0]
