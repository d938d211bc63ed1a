"""KL estimators: values by hand, gradients by enumeration."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worked

from arl.kernels import divergences


def unbiased(logp, ref_logp):
  """With tokens from the worked old policy."""
  return divergences.k3_unbiased(logp, ref_logp, OLD)


OLD = worked.column(worked.OLD_LOGP)
MEANS = {
  divergences.k1: -0.044444,
  divergences.absolute: 0.288889,
  divergences.k2: 0.061944,
  divergences.k3: 0.071232,
  divergences.k3_cut: 0.071232,
  divergences.k3_plus: 0.071232,
  unbiased: 0.056310,
}
KERNELS = tuple(MEANS)
LOGP, REF = worked.column(worked.LOGP), worked.column(worked.REF_LOGP)
GRADIENTS = {
  divergences.k1: [[1.0] * n for n in worked.LENGTHS],
  divergences.k2: [
    [0.2, -0.5, 0.25],
    [0.1, 0.1],
    [-0.3],
    [0.05, 0.4, -0.7],
  ],
  divergences.k3: [
    [0.181269, -0.648721, 0.221199],
    [0.095163, 0.095163],
    [-0.349859],
    [0.048771, 0.329680, -1.013753],
  ],
  divergences.absolute: [[1, -1, 1], [1, 1], [-1], [1, 1, -1]],
  unbiased: [  # nine times the gradient of the token mean
    [0.221031, -0.370413, 0.321003],
    [0.149182, 0.090484],
    [-0.245619],
    [0.052564, 0.539944, -0.424572],
  ],
}
GRADIENTS[divergences.k3_cut] = GRADIENTS[divergences.k3]
GRADIENTS[divergences.k3_plus] = GRADIENTS[divergences.k2]


@pytest.mark.parametrize('kernel', KERNELS)
def test_worked_token_means(kernel):
  want = MEANS[kernel]
  got = jnp.sum(jax.jit(kernel)(LOGP, REF)) / 9
  np.testing.assert_allclose(got, want, atol=1e-6)


@pytest.mark.parametrize('kernel', KERNELS)
def test_worked_gradients(kernel):
  gradient = jax.jit(jax.grad(lambda x: jnp.sum(kernel(x, REF))))(LOGP)
  mask = worked.mask()
  want = worked.column(GRADIENTS[kernel])
  np.testing.assert_allclose(gradient[mask], want[mask], atol=5e-6)


@pytest.mark.parametrize('kernel', KERNELS)
def test_equal_policies_have_exactly_none(kernel):
  np.testing.assert_array_equal(kernel(LOGP, LOGP), np.zeros((4, 3)))


def test_which_way_round():
  logp, ref = jnp.float32(-1.0), jnp.float32(-1.5)
  np.testing.assert_allclose(divergences.k1(logp, ref), 0.5)
  np.testing.assert_allclose(divergences.k3(logp, ref), 0.10653, atol=1e-5)
  np.testing.assert_allclose(divergences.k3(ref, logp), 0.14872, atol=1e-5)


def test_k3_is_finite_never_negative_and_precise_near_zero():
  x = jnp.asarray([-1e9, -30.0, 1e9], jnp.float32)
  got = jax.jit(divergences.k3)(x, jnp.zeros(3))
  assert np.all(np.isfinite(got)) and np.all(np.asarray(got) > 0)
  small = divergences.k3(jnp.float32(1e-3), jnp.float32(0.0))
  np.testing.assert_allclose(small, 4.998334e-07, rtol=1e-3)


def _expected(kernel, logits, ref_logits):
  """Expectations over actions of a kernel's value and of its gradient."""
  ref = jax.nn.log_softmax(ref_logits)

  def sampled(logits):
    return kernel(jax.nn.log_softmax(logits), ref)

  p = jax.nn.softmax(logits)
  return p @ sampled(logits), p @ jax.jacobian(sampled)(logits)


def _kl(logits, other):
  gap = jax.nn.log_softmax(logits) - jax.nn.log_softmax(other)
  return jnp.sum(jax.nn.softmax(logits) * gap)


def test_two_actions_by_hand(x64):
  logits, ref = jnp.log(jnp.asarray([0.8, 0.2])), jnp.log(jnp.full(2, 0.5))
  cases = (
    (divergences.k1, 0.19274, 0.0),
    (divergences.k2, 0.17232, 0.22181),
    (divergences.k3, 0.19274, 0.3),
  )
  for kernel, value, gradient in cases:
    got = _expected(kernel, logits, ref)
    np.testing.assert_allclose(got[0], value, atol=1e-5)
    np.testing.assert_allclose(got[1][0], gradient, atol=1e-5)
  np.testing.assert_allclose(jax.grad(_kl)(logits, ref)[0], 0.22181, atol=1e-5)


@pytest.mark.parametrize('seed', range(3))
def test_expected_values_and_gradients_over_three_actions(seed, x64):
  logits, ref = jax.random.normal(jax.random.key(seed), (2, 3))
  exact, toward = jax.grad(_kl)(logits, ref), jax.grad(_kl, 1)(ref, logits)
  k1, k2, k3, plus = (
    _expected(kernel, logits, ref)
    for kernel in (
      divergences.k1,
      divergences.k2,
      divergences.k3,
      divergences.k3_plus,
    )
  )
  np.testing.assert_allclose(k1[0], _kl(logits, ref), atol=1e-12)
  np.testing.assert_allclose(k3[0], _kl(logits, ref), atol=1e-12)
  np.testing.assert_allclose(k1[1], np.zeros(3), atol=1e-12)
  np.testing.assert_allclose(k2[1], exact, atol=1e-12)
  np.testing.assert_allclose(k3[1], toward, atol=1e-12)
  np.testing.assert_allclose(plus[0], k3[0], atol=1e-12)
  np.testing.assert_allclose(plus[1], exact, atol=1e-12)


@pytest.mark.parametrize('seed', range(3))
def test_the_absolute_has_the_gradient_of_the_l1_distance(seed, x64):
  logits, ref = jax.random.normal(jax.random.key(seed), (2, 3))

  def distance(logits):
    return jnp.sum(jnp.abs(jax.nn.softmax(logits) - jax.nn.softmax(ref)))

  _, got = _expected(divergences.absolute, logits, ref)
  np.testing.assert_allclose(got, jax.grad(distance)(logits), atol=1e-12)


@pytest.mark.parametrize('seed', range(3))
def test_k3_unbiased_is_so_for_tokens_of_an_older_policy(seed, x64):
  logits, ref, old = jax.random.normal(jax.random.key(seed), (3, 3))
  old_logp = jax.nn.log_softmax(old)

  def expected(logits):
    each = divergences.k3_unbiased(
      jax.nn.log_softmax(logits), jax.nn.log_softmax(ref), old_logp
    )
    return jnp.exp(old_logp) @ each

  got, want = (jax.value_and_grad(f) for f in (expected, _kl_to(ref)))
  np.testing.assert_allclose(got(logits)[0], want(logits)[0], atol=1e-12)
  np.testing.assert_allclose(got(logits)[1], want(logits)[1], atol=1e-12)


def _kl_to(ref):
  return lambda logits: _kl(logits, ref)


def test_k3_cut_ends_at_ten():
  ref, logp = jnp.zeros(2), jnp.asarray([-2.0, -4.0])
  value = divergences.k3_cut(logp, ref)
  slope = jax.grad(lambda x: jnp.sum(divergences.k3_cut(x, ref)))(logp)
  np.testing.assert_allclose(value, [np.exp(2) - 3, 10], rtol=1e-6)
  np.testing.assert_allclose(slope, [1 - np.exp(2), 0], rtol=1e-6)


@pytest.mark.parametrize('gap', [-1e9, -25.0, 25.0, 1e9])
def test_far_from_the_reference_everything_is_finite(gap):
  for kernel in KERNELS:
    value, slope = jax.value_and_grad(lambda x, k=kernel: jnp.sum(k(x, REF)))(
      LOGP + gap
    )
    assert np.isfinite(value) and np.all(np.isfinite(slope)), kernel


def test_binary_kl_by_hand():
  mu, pi = jnp.float32(0.5), jnp.float32(0.6)
  got = divergences.binary_kl(jnp.log(pi), jnp.log(mu))
  np.testing.assert_allclose(got, np.log(25 / 24) / 2, rtol=1e-4)
  same = divergences.binary_kl(jnp.zeros(2), jnp.zeros(2))
  np.testing.assert_array_equal(same, [0, 0])


def test_binary_kl_bounds_that_of_the_vocabulary(x64):
  logits, other = jax.random.normal(jax.random.key(0), (2, 5))
  policy, behavior = jax.nn.log_softmax(logits), jax.nn.log_softmax(other)
  each = divergences.binary_kl(policy, behavior)
  assert np.all(np.asarray(each) > 0)
  assert np.all(np.asarray(each) < _kl(other, logits))


@pytest.mark.parametrize('dtype', ['float32', 'float64'])
def test_k3_and_its_slope_are_precise_at_any_size(dtype, x64):
  del x64
  size = np.geomspace(1e-12, 15, 400)
  x = np.concatenate([-size, size]).astype(dtype)
  wide = x.astype(np.longdouble)
  near = sum(wide**n / math.factorial(n) for n in range(2, 30))
  want = np.where(abs(wide) < 1, near, np.exp(wide) - 1 - wide)
  zero = jnp.zeros((), x.dtype)
  k3 = lambda x: divergences.k3(zero, x)
  within = 8 * np.finfo(dtype).eps
  np.testing.assert_allclose(k3(jnp.asarray(x)), want, rtol=within)
  slope = jax.vmap(jax.grad(k3))(jnp.asarray(x))
  np.testing.assert_allclose(slope, np.expm1(wide), rtol=within)
