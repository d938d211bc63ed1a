"""Value losses: literal numbers and the gradient where branches meet."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worked

from arl.kernels import critics

CLIP = functools.partial(critics.value_clip, clip=0.2)


def test_by_hand():
  got = jax.jit(CLIP)(
    jnp.asarray([0.5, 0.9]), jnp.asarray([0.2, 0.8]), jnp.asarray([1.0, 0.0])
  )
  np.testing.assert_allclose(got, [0.18, 0.405], rtol=1e-6)
  np.testing.assert_allclose(jnp.mean(got), 0.2925, rtol=1e-6)


def _slope(value, old_value, returns):
  return float(jax.grad(CLIP)(*map(jnp.float32, (value, old_value, returns))))


def test_gradient_ends_where_the_clipped_error_is_larger():
  np.testing.assert_allclose(_slope(0.9, 0.8, 0.0), 0.9, rtol=1e-6)
  assert _slope(0.5, 0.2, 1.0) == 0.0


def test_a_tie_keeps_the_whole_gradient():
  np.testing.assert_allclose(_slope(0.3, 0.3, 1.0), -0.7, rtol=1e-6)


def test_squared_error():
  slope = jax.grad(critics.value_mse)(jnp.float32(0.9), jnp.float32(0.0))
  np.testing.assert_allclose(slope, 0.9, rtol=1e-6)
  value = critics.value_mse(jnp.float32(0.5), jnp.float32(1.0))
  np.testing.assert_allclose(value, 0.125)


def test_a_bounded_value_stays_in_the_range_of_rewards():
  kernel = functools.partial(critics.bounded, low=-1.0, high=3.0)
  got = jax.jit(kernel)(jnp.asarray([[-1e9, 0.0, 1e9, 1.0]]))
  np.testing.assert_allclose(got, [[-1, 1, 3, 2]], rtol=1e-6)
  slopes = jax.vmap(jax.grad(kernel))(jnp.asarray([-1e9, 0.0]))
  np.testing.assert_allclose(slopes, [0, 4 / np.pi], atol=1e-6)


LOGITS = jnp.asarray([[[0.1, 0.2, 0.7, 0.4, -0.3]]])
RETURNS = jnp.asarray([[0.55]])
CDF = (0.009707, 0.149059, 0.472599, 0.322125, 0.046509)
PDF = (0.005913, 0.132727, 0.503524, 0.322849, 0.034987)
TWO_HOT = (0.0, 0.0, 0.75, 0.25, 0.0)
TARGETS = (critics.hl_gauss, critics.gauss_at_centers, critics.two_hot)


@pytest.mark.parametrize('target, want', [*zip(TARGETS, (CDF, PDF, TWO_HOT))])
def test_targets_by_hand(target, want):
  got = target(5 * RETURNS, 5)
  np.testing.assert_allclose(got, [[want]], atol=1e-6)


def test_expected_values_by_hand():
  centers = critics.support(0.0, 1.0, 5)
  np.testing.assert_allclose(centers, [0.1, 0.3, 0.5, 0.7, 0.9], rtol=1e-6)
  np.testing.assert_allclose(jnp.asarray(CDF) @ centers, 0.549334, rtol=1e-5)
  kernel = functools.partial(critics.expected_value, low=0.0, high=1.0)
  got = jax.jit(kernel)(LOGITS)
  np.testing.assert_allclose(got, [[0.486056]], rtol=1e-5)


@pytest.mark.parametrize(
  'target, want', [(critics.hl_gauss, 1.406466), (critics.two_hot, 1.257966)]
)
def test_cross_entropy_by_hand(target, want):
  kernel = functools.partial(
    critics.categorical, low=0.0, high=1.0, target=target
  )
  got = jax.jit(kernel)(LOGITS, RETURNS)
  np.testing.assert_allclose(got, [[want]], rtol=1e-6)


@pytest.mark.parametrize('target', TARGETS)
def test_a_target_is_a_distribution_and_a_return_outside_counts_as_the_end(
  target,
):
  positions = jnp.linspace(0, 7, 29)
  shares = target(positions, 7)
  np.testing.assert_allclose(jnp.sum(shares, axis=1), 1, rtol=1e-5)
  assert np.all(shares >= 0)
  kernel = functools.partial(
    critics.categorical, low=-1.0, high=2.0, target=target
  )
  outside = kernel(LOGITS[:, [0, 0]], jnp.asarray([[-50.0, 9.0]]))
  ends = kernel(LOGITS[:, [0, 0]], jnp.asarray([[-1.0, 2.0]]))
  np.testing.assert_array_equal(outside, ends)


def test_two_hot_keeps_the_mean_between_the_outer_centers():
  positions = jnp.linspace(0.5, 6.5, 25)
  got = critics.two_hot(positions, 7) @ jnp.arange(0.5, 7)
  np.testing.assert_allclose(got, positions, rtol=1e-6)


@pytest.mark.parametrize('target', TARGETS)
def test_the_gradient_is_that_of_a_fixed_target(target):
  def loss(logits, returns):
    kernel = functools.partial(critics.categorical, target=target)
    return jnp.sum(kernel(logits, returns, low=0.0, high=1.0))

  slopes, none = jax.grad(loss, (0, 1))(LOGITS, RETURNS)
  want = jax.nn.softmax(LOGITS) - target(5 * RETURNS, 5)
  np.testing.assert_allclose(slopes, want, atol=1e-6)
  np.testing.assert_array_equal(none, np.zeros((1, 1)))


def test_returns_outside_the_range_are_cut_and_counted():
  returns = jnp.asarray([[-0.5, 0.0, 0.4, 1.0 + 1e-7, 2.0]])
  got = critics.limited(returns, low=0.0, high=1.0)
  np.testing.assert_allclose(got, [[0, 0, 0.4, 1, 1]])
  got = critics.outside(returns, low=0.0, high=1.0)
  np.testing.assert_array_equal(got, [[1, 0, 0, 0, 1]])


# How much of the returns a critic explains.


def _explained(value, returns=(0.0, 1.0, 1.0, 4.0), kept=(1, 1, 1, 1, 0)):
  mask = jnp.asarray([[True] * 4 + [False]])
  pad = lambda x: jnp.asarray([[*x, np.nan]])
  got = critics.explained_where(
    pad(returns), pad(value), jnp.asarray([kept]), mask
  )
  assert not got[0, 4] and len(set(got[0, :4].tolist())) == 1
  return float(got[0, 0])


def test_the_variance_that_a_critic_explains():
  assert _explained((0.0, 1.0, 1.0, 4.0)) == 1
  assert _explained((7.0, 8.0, 8.0, 11.0)) == 1  # but for a constant
  assert _explained((3.0, 3.0, 3.0, 3.0)) == 0
  np.testing.assert_allclose(_explained((0.0, 0.5, 0.5, 2.0)), 0.75)
  np.testing.assert_allclose(_explained((-0.0, -1, -1, -4)), -3)
  assert _explained((0.3, 0.1, 0.2, 0.9), (0.7,) * 4) == 0
  of_some = _explained((0.0, 1.0, 9.0, 9.0), kept=(1, 1, 0, 0, 0))
  assert of_some == 1
  mask, returns = jnp.ones((1, 2), bool), jnp.asarray([[0.0, 2.0]])
  got = critics.explained(returns, jnp.asarray([[0.0, 1.0]]), mask)
  np.testing.assert_allclose(got, [[0.75, 0.75]])


# Classes of outcomes.


def test_the_nearest_outcome():
  mask, seq = worked.mask(), worked.sequences()
  rewards = jnp.where(mask, worked.at_end([-0.8, -0.31, 0.9, -7]), np.nan)
  got = critics.nearest_outcome(
    rewards, mask, seq, outcomes=(-1.0, -0.6, -0.3, 1.0)
  )
  np.testing.assert_array_equal(got, worked.per_sequence([0, 2, 3, 0]))


def test_the_chance_of_the_outcome_that_came():
  logits = jnp.log(jnp.asarray([[[0.2, 0.5, 0.3], [0.7, 0.2, 0.1]]]))
  label = jnp.asarray([[1, 0]])
  got = critics.outcome_chance(logits, label)
  np.testing.assert_allclose(got, [[0.5, 0.7]], rtol=1e-6)
  loss = critics.outcome_loss(logits, label)
  np.testing.assert_allclose(loss, -np.log([[0.5, 0.7]]), rtol=1e-6)
