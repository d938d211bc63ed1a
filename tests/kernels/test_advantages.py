"""Group baselines: literal numbers, a slow twin, groups that say nothing."""

import functools
import statistics

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worked

from arl import levels
from arl.kernels import advantages

BASELINES = (
  advantages.group_center,
  advantages.group_normalize,
  advantages.leave_one_out,
  advantages.batch_scaled,
  advantages.length_weighted,
)
KERNELS = (
  *BASELINES,
  advantages.sign_balanced,
  advantages.pair_sign,
  advantages.best_of_group,
)
JITTED = {kernel: jax.jit(kernel) for kernel in KERNELS}
MOST = 16


def _of_scores(kernel, scores, groups):
  """A number a sequence, for sequences of one token; padded to MOST rows."""
  padding = MOST - len(scores)
  got = JITTED[kernel](
    np.asarray([*scores, *[9e9] * padding], np.float32)[:, None],
    np.arange(MOST)[:, None] < len(scores),
    worked.level(range(MOST), 1),
    worked.level([*groups, *[0] * padding], 1, MOST),
  )
  return np.asarray(got)[: len(scores), 0]


@pytest.mark.parametrize(
  'kernel, groups, want',
  [
    (advantages.group_normalize, [0] * 4, worked.ADVANTAGE),
    (
      advantages.group_normalize,
      [0, 0, 1, 1],
      [0.707106, -0.707106, -0.707105, 0.707105],
    ),
    (advantages.group_center, [0] * 4, [0.55, -0.25, -0.45, 0.15]),
    (advantages.leave_one_out, [0] * 4, [0.733333, -0.333333, -0.6, 0.2]),
    (advantages.leave_one_out, [0, 0, 1, 1], [0.8, -0.8, -0.6, 0.6]),
    (
      functools.partial(advantages.group_normalize, ddof=0, eps=1e-8),
      [0] * 4,
      [1.432078, -0.650945, -1.1717, 0.390567],
    ),
    (
      advantages.batch_scaled,
      [0, 0, 1, 1],
      [0.901975, -0.901975, -0.676481, 0.676481],
    ),
    (
      advantages.length_weighted,
      [0] * 4,
      [0.422222, -0.377778, -0.577778, 0.022222],
    ),
    (advantages.best_of_group, [0] * 4, [0.4, 0, 0, 0]),
    (advantages.best_of_group, [0, 0, 1, 1], [0.8, 0, 0, 0.6]),
    (advantages.pair_sign, [0, 0, 1, 1], [1, -1, -1, 1]),
    (advantages.pair_sign, [0] * 4, [0] * 4),
  ],
)
def test_worked(kernel, groups, want):
  got = jax.jit(kernel)(
    worked.at_end(worked.REWARDS),
    worked.mask(),
    worked.sequences(),
    worked.level(groups, 3),
  )
  np.testing.assert_allclose(got, worked.per_sequence(want), atol=2e-6)


@pytest.mark.parametrize(
  'kernel, want',
  [
    (advantages.group_center, [-8.66667, -4, -0.66667, 4, 9.33333]),
    (
      advantages.group_normalize,
      [-0.96099, -0.70711, -0.07392, 0.70711, 1.03491],
    ),
    (advantages.leave_one_out, [-13, -8, -1, 8, 14]),
    (
      advantages.batch_scaled,
      [-1.21596, -0.56121, -0.09354, 0.56121, 1.3095],
    ),
    (advantages.length_weighted, [-8.66667, -4, -0.66667, 4, 9.33333]),
    (advantages.sign_balanced, [0] * 5),
    (advantages.pair_sign, [0, -1, 0, 1, 0]),
    (advantages.best_of_group, [0, 0, 0, 8, 10]),
  ],
)
def test_uneven_groups_in_mixed_order(kernel, want):
  got = _of_scores(kernel, [2, 4, 10, 12, 20], [0, 1, 0, 1, 0])
  np.testing.assert_allclose(got, want, atol=1e-5)


def _slow(kernel, scores, everything):
  """The advantages of one group of sequences of one token, from the formula."""
  n, middle = len(scores), statistics.fmean(scores)
  right = sum(score > 0 for score in scores)
  both = 0 < right < n
  if max(scores) == min(scores):
    return [0.0] * n
  if kernel in (advantages.group_center, advantages.length_weighted):
    return [s - middle for s in scores]
  if kernel is advantages.leave_one_out:
    return [s - (sum(scores) - s) / (n - 1) for s in scores]
  if kernel is advantages.sign_balanced:
    return [both * (1 if s > 0 else -right / (n - right)) for s in scores]
  if kernel is advantages.pair_sign:
    return [(n == 2) * (1 if s == max(scores) else -1) for s in scores]
  if kernel is advantages.best_of_group:
    best, second = sorted(scores, reverse=True)[:2]
    return [best - second if s == best else 0 for s in scores]
  spread = everything if kernel is advantages.batch_scaled else scores
  return [(s - middle) / (statistics.stdev(spread) + 1e-6) for s in scores]


@pytest.mark.parametrize('kernel', KERNELS)
@hypothesis.settings(max_examples=20, deadline=None)
@hypothesis.given(
  scores=st.lists(st.integers(-8, 8), min_size=8, max_size=8),
  groups=st.lists(st.integers(0, 3), min_size=8, max_size=8),
)
def test_equals_the_formula_group_by_group(kernel, scores, groups):
  got = _of_scores(kernel, scores, groups)
  scores = [float(score) for score in scores]
  want = np.zeros(8)
  for group in set(groups):
    rows = [i for i, g in enumerate(groups) if g == group]
    want[rows] = _slow(kernel, [scores[i] for i in rows], scores)
  np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.parametrize('kernel', [*BASELINES, advantages.sign_balanced])
def test_sums_to_zero_over_a_group(kernel):
  got = _of_scores(kernel, [3, 1, 4, 1, 5, 9], [0, 0, 0, 1, 1, 1])
  np.testing.assert_allclose([got[:3].sum(), got[3:].sum()], 0, atol=1e-5)


def test_group_deviation_identities_of_binary_rewards():
  # One of four right: sigma = sqrt(k (G - k)) / G, sample deviation times
  # sqrt(G / (G - 1)).
  sigma = np.sqrt(3) / 4
  center = _of_scores(advantages.group_center, [1, 0, 0, 0], [0] * 4)
  np.testing.assert_allclose(np.mean(np.abs(center)), 2 * sigma**2, rtol=1e-6)
  unit = _of_scores(advantages.group_normalize, [1, 0, 0, 0], [0] * 4)
  want = 2 * sigma / np.sqrt(4 / 3)
  np.testing.assert_allclose(np.mean(np.abs(unit)), want, rtol=1e-5)


def test_one_of_four_correct_is_balanced_by_sign():
  got = _of_scores(advantages.sign_balanced, [1, 0, 0, 0], [0] * 4)
  np.testing.assert_allclose(got, [1, -1 / 3, -1 / 3, -1 / 3], rtol=1e-6)


def test_a_tie_for_the_best_says_nothing():
  got = _of_scores(advantages.best_of_group, [3, 1, 3], [0] * 3)
  np.testing.assert_array_equal(got, np.zeros(3))


@pytest.mark.parametrize('kernel', KERNELS)
def test_no_gradient_reaches_the_rewards(kernel):
  columns = worked.mask(), worked.sequences(), worked.one_group()

  def total(rewards):
    return jnp.sum(kernel(rewards, *columns))

  for rewards in (worked.REWARDS, (1.0,) * 4):
    got = jax.grad(total)(worked.at_end(rewards, np.nan))
    np.testing.assert_array_equal(got, np.zeros((4, 3)))


def test_a_nearly_unanimous_group_stays_of_order_one():
  scores, group = [0, 1, 1, 1, 1], [0] * 5
  got = _of_scores(advantages.group_normalize, scores, group)
  np.testing.assert_allclose(got, [-1.78885] + [0.44721] * 4, atol=1e-5)
  got = _of_scores(advantages.leave_one_out, scores, group)
  np.testing.assert_allclose(got, [-1.0] + [0.25] * 4, atol=1e-6)


@pytest.mark.parametrize('kernel', KERNELS)
@pytest.mark.parametrize('value, size', [(0.1, 7), (1.1, 10), (0.35, 5)])
def test_equal_rewards_leave_no_residue(kernel, value, size):
  got = _of_scores(kernel, [value] * size, [0] * size)
  np.testing.assert_array_equal(got, np.zeros(size))


@pytest.mark.parametrize('kernel', KERNELS)
def test_equal_sums_added_in_another_order_are_equal(kernel):
  # 0.1 + 0.2 - 0.3 is 0 or a rounding residue, by the order of the turns.
  rewards = jnp.asarray(
    [[0.1, 0.2, -0.3], [-0.3, 0.2, 0.1], [0.2, -0.3, 0.1]], jnp.float32
  )
  got = JITTED[kernel](
    rewards,
    jnp.ones((3, 3), bool),
    worked.sequences(3),
    worked.one_group(3),
  )
  assert len(set(np.asarray(jnp.sum(rewards, 1)).tolist())) > 1
  np.testing.assert_array_equal(got, np.zeros((3, 3)))


@pytest.mark.parametrize('kernel', BASELINES)
def test_a_small_but_real_difference_counts(kernel):
  got = _of_scores(kernel, [1.0, 1.00001], [0, 0])
  assert got[1] > 0 > got[0]


@pytest.mark.parametrize('kernel', KERNELS)
def test_a_group_of_one_says_nothing(kernel):
  np.testing.assert_array_equal(_of_scores(kernel, [5.0], [0]), [0.0])


@pytest.mark.parametrize('kernel', KERNELS)
def test_a_sequence_counts_once_however_long_and_only_with_tokens(kernel):
  rewards = worked.at_end((1.0, 0.0, 1.0, 99.0))
  mask = worked.mask().at[3].set(False)
  got = JITTED[kernel](rewards, mask, worked.sequences(), worked.one_group())
  want = _of_scores(kernel, [1.0, 0.0, 1.0], [0] * 3)
  if kernel is advantages.length_weighted:  # 3 + 1 of the 6 tokens earned 1
    want = [1 / 3, -2 / 3, 1 / 3]
  np.testing.assert_allclose(got, worked.per_sequence([*want, 0.0]), atol=1e-6)


def test_rewards_of_a_sequence_add_up():
  rewards = worked.column([[0.25, 0.5, 0.25], [0.1, 0.1], [0.0], [0.6, 0, 0]])
  got = JITTED[advantages.group_center](
    rewards, worked.mask(), worked.sequences(), worked.one_group()
  )
  want = worked.per_sequence([0.55, -0.25, -0.45, 0.15])
  np.testing.assert_allclose(got, want, atol=1e-6)


def test_eps_is_added_to_the_deviation():
  kernel = jax.jit(functools.partial(advantages.group_normalize, eps=0.5))
  rewards = jnp.asarray([[0.0], [2.0]])
  level = levels.Level(jnp.zeros((2, 1), jnp.int32), 1)
  got = kernel(rewards, jnp.ones((2, 1), bool), worked.sequences(2, 1), level)
  want = 1 / (np.sqrt(2.0) + 0.5)
  np.testing.assert_allclose(got[:, 0], [-want, want], rtol=1e-6)


def test_groups_that_are_comparable():
  seq, group = worked.sequences(), worked.level([0, 0, 1, 1], 3)
  rewards = worked.at_end((1.0, 0.5, 0.3, 0.3))
  got = advantages.comparable(rewards, worked.mask(), seq, group)
  want = np.asarray(worked.mask()) & np.array([[1], [1], [0], [0]], bool)
  np.testing.assert_array_equal(got, want)
