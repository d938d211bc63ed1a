"""KL estimators: values by hand, gradients by enumeration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worked

from arl.kernels import divergences

KERNELS = (divergences.k1, divergences.k2, divergences.k3)
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
}


@pytest.mark.parametrize(
  'kernel, want',
  list(zip(KERNELS, (-0.044444, 0.061944, 0.071232))),
  ids=lambda x: getattr(x, '__name__', ''),
)
def test_worked_token_means(kernel, want):
  got = jnp.sum(jax.jit(kernel)(LOGP, REF)) / 9
  np.testing.assert_allclose(got, want, atol=1e-6)


@pytest.mark.parametrize('kernel', KERNELS)
def test_worked_gradients(kernel):
  gradient = jax.jit(jax.grad(lambda x: jnp.sum(kernel(x, REF))))(LOGP)
  mask = worked.mask()
  want = worked.column(GRADIENTS[kernel])
  np.testing.assert_allclose(gradient[mask], want[mask], atol=2e-6)


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
  k1, k2, k3 = (_expected(kernel, logits, ref) for kernel in KERNELS)
  np.testing.assert_allclose(k1[0], _kl(logits, ref), atol=1e-12)
  np.testing.assert_allclose(k3[0], _kl(logits, ref), atol=1e-12)
  np.testing.assert_allclose(k1[1], np.zeros(3), atol=1e-12)
  np.testing.assert_allclose(k2[1], exact, atol=1e-12)
  np.testing.assert_allclose(k3[1], toward, atol=1e-12)
