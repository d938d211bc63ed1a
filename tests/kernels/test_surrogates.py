"""Surrogates: literal numbers, gradients, ties and limits."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import worked
from absl.testing import parameterized

from arl.kernels import surrogates

OLD = worked.column(worked.OLD_LOGP)
LOGP = worked.column(worked.LOGP)
ADVANTAGE = worked.per_sequence(worked.ADVANTAGE)
CLIP = functools.partial(surrogates.clip, low=0.2, high=0.2)
DUAL = functools.partial(surrogates.dual_clip, low=0.2, high=0.2)


def _read(kernel, logp, advantage):
  """A surrogate of any signature, of tokens whose anchor is OLD."""
  if kernel is surrogates.reinforce:
    return kernel(logp, advantage)
  return kernel(logp - OLD, advantage)


class WorkedTest(chex.TestCase):
  """The loss of the nine worked tokens, a token mean."""

  @chex.variants(with_jit=True, without_jit=True)
  @parameterized.named_parameters(
    ('reinforce', surrogates.reinforce, 0.316943),
    ('clip', CLIP, -0.284715),
    (
      'clip_higher',
      functools.partial(surrogates.clip, low=0.2, high=0.28),
      -0.298746,
    ),
    ('dual_clip', functools.partial(DUAL, cap=1.3), -0.296731),
  )
  def test_loss(self, kernel, want):
    objective = self.variant(functools.partial(_read, kernel))(LOGP, ADVANTAGE)
    np.testing.assert_allclose(-jnp.sum(objective) / 9, want, atol=1e-6)


CLIPPED = [
  [-0.152294, -0.102086, 0.0],
  [0.093443, 0.056676],
  [0.092309],
  [-0.039509, 0.0, -0.022795],
]
DUAL_CLIPPED = [CLIPPED[0], [0.0, 0.056676], *CLIPPED[2:]]


class GradientTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ('clip', CLIP, CLIPPED),
    ('dual_clip', functools.partial(DUAL, cap=1.3), DUAL_CLIPPED),
  )
  def test_worked(self, kernel, want):
    def loss(logp):
      return -jnp.sum(_read(kernel, logp, ADVANTAGE)) / 9

    got = jax.jit(jax.grad(loss))(LOGP)
    np.testing.assert_allclose(got, worked.column(want), atol=1e-6)


def _slope(kernel, log_ratio, advantage):
  """Value and derivative in the log-ratio, of one token."""
  return jax.value_and_grad(lambda x: kernel(x, jnp.float32(advantage)))(
    jnp.float32(log_ratio)
  )


def test_a_tie_takes_the_unclipped_branch_with_its_whole_gradient():
  for advantage in (1.0, -1.0, 0.5):
    for kernel in (CLIP, DUAL):
      value, slope = _slope(kernel, 0.0, advantage)
      assert (float(value), float(slope)) == (advantage, advantage)


def test_a_tie_at_a_bound_keeps_the_gradient():
  at_bound = functools.partial(surrogates.clip, low=0.5, high=1.0)
  for advantage, log_ratio in ((1.0, np.log(2.0)), (-1.0, np.log(0.5))):
    ratio = np.exp(np.float32(log_ratio))
    exact = functools.partial(at_bound, low=1 - ratio, high=ratio - 1)
    value, slope = _slope(exact, log_ratio, advantage)
    np.testing.assert_allclose([value, slope], [ratio * advantage] * 2)


def test_each_bound_binds_for_one_sign():
  asymmetric = functools.partial(surrogates.clip, low=0.2, high=0.28)
  up, down = np.log(1.25), np.log(0.7)
  cases = (
    (CLIP, up, 1, 1.2, 0.0),
    (asymmetric, up, 1, 1.25, 1.25),
    (CLIP, up, -1, -1.25, -1.25),
    (CLIP, down, -1, -0.8, 0.0),
    (CLIP, down, 1, 0.7, 0.7),
  )
  for kernel, log_ratio, advantage, value, slope in cases:
    got = _slope(kernel, log_ratio, advantage)
    np.testing.assert_allclose(got, [value, slope], rtol=1e-5)


def test_dual_clip_bounds_what_a_bad_action_may_cost():
  cases = ((5.0, -1, -3.0, 0.0), (2.0, -1, -2.0, -2.0), (5.0, 1, 1.2, 0.0))
  for ratio, advantage, value, slope in cases:
    got = _slope(DUAL, np.log(ratio), advantage)
    np.testing.assert_allclose(got, [value, slope], rtol=1e-5)


def test_importance_has_no_limit_but_finiteness():
  value, slope = _slope(surrogates.importance, np.log(7.0), 2.0)
  np.testing.assert_allclose([value, slope], [14.0, 14.0], rtol=1e-6)
  value, slope = _slope(surrogates.importance, 1e6, 2.0)
  np.testing.assert_allclose(value, 2 * np.exp(20.0), rtol=1e-6)
  assert float(slope) == 0


def test_the_ratio_is_finite_everywhere():
  x = jnp.asarray([-1e30, -20.0, 0.0, 20.0, 1e30], jnp.float32)
  e = np.exp(20.0)
  np.testing.assert_allclose(
    jax.jit(surrogates.ratio)(x), [1 / e, 1 / e, 1, e, e], rtol=1e-6
  )
