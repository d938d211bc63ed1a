"""KTO: the reference point, the value of gains and losses, its gradient."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worked

from arl.kernels import prospect
from arl.methods import compose, preference

MASK, SEQ = worked.mask(), worked.sequences()
OLD, REF = worked.column(worked.OLD_LOGP), worked.column(worked.REF_LOGP)
GAP = np.asarray([sum(row) for row in worked.OLD_TO_REF])
LAST = jnp.asarray([[False], [False], [True], [True]])
BAD = (np.nan, np.inf, -np.inf, 1e9)


def _point(old=OLD, ref=REF, mismatched=LAST, bad=0.0):
  mismatched = jnp.broadcast_to(mismatched, MASK.shape)
  old, ref = (jnp.where(MASK, x, bad) for x in (old, ref))
  return prospect.reference_point(
    old, ref, jnp.where(MASK, mismatched, bool(bad)), MASK, SEQ
  )


def test_the_reference_point_is_a_mean_over_mismatched_answers():
  for bad in (0.0, *BAD):
    below = _point(bad=bad)
    assert not np.any(below)  # the mean is negative
    above = _point(REF, OLD, bad=bad)
    want = worked.per_sequence([-np.mean(GAP[2:])] * 4)
    np.testing.assert_allclose(above, want, rtol=1e-5)


def test_without_mismatched_answers_it_is_zero():
  assert not np.any(_point(REF, OLD, jnp.zeros((4, 1), bool)))


def test_what_is_good():
  rewards = jnp.where(MASK, worked.at_end([1.0, 0.0, -1.0, 1.0]), jnp.nan)
  mismatched = jnp.broadcast_to(jnp.arange(4)[:, None] == 3, MASK.shape)
  got = prospect.desirable(rewards, mismatched, MASK, SEQ)
  np.testing.assert_array_equal(got, worked.per_sequence([1, -1, -1, 0]))


@pytest.mark.parametrize('preferred', [1.0, -1.0])
def test_the_value_and_its_slope(preferred):
  kernel = functools.partial(
    prospect.prospect, beta=0.5, desirable=2.0, undesirable=3.0
  )
  value, slope = jax.value_and_grad(kernel)(0.7, preferred, 0.3)
  weight = 2.0 if preferred > 0 else 3.0
  x = preferred * 0.5 * 0.4
  sigmoid = 1 / (1 + np.exp(-x))
  np.testing.assert_allclose(value, -weight * (1 - sigmoid), rtol=1e-6)
  want = weight * sigmoid * (1 - sigmoid) * preferred * 0.5
  np.testing.assert_allclose(slope, want, rtol=1e-6)
  assert jax.grad(kernel, argnums=2)(0.7, preferred, 0.3) == 0


def _columns():
  columns = worked.batch()
  mismatched = jnp.broadcast_to(LAST, MASK.shape)
  return {
    **columns,
    'rewards': worked.at_end([1.0, 0.0, 1.0, 1.0], jnp.nan),
    'mismatched': mismatched,
  }


def _run(columns):
  method = compose.method(preference.kto())
  credits = method.credit(columns)
  weights = method.weigh(columns, credits)

  def loss(logp):
    return method.loss({**columns, 'logp': logp}, credits, weights)[0]

  return jax.jit(jax.value_and_grad(loss))(columns['logp'])


def test_at_the_reference_each_answer_loses_a_half():
  columns = _columns()
  ref = columns['ref_logp']
  value, gradient = _run({**columns, 'logp': ref, 'old_logp': ref})
  np.testing.assert_allclose(value, 0.5, rtol=1e-6)
  want = worked.per_sequence([-0.025 / 2, 0.025 / 2, 0, 0])
  np.testing.assert_allclose(gradient, want, rtol=1e-5, atol=1e-8)


def test_mismatched_answers_get_no_gradient_and_no_weight():
  _, gradient = _run(_columns())
  assert not np.any(gradient[2:]) and np.all(gradient[0] < 0)


def test_of_one_class_it_still_learns():
  columns = _columns()
  for reward, sign in ((1.0, -1), (0.0, 1)):
    rewards = worked.at_end([reward] * 4, jnp.nan)
    value, gradient = _run({**columns, 'rewards': rewards})
    assert np.isfinite(value) and np.all(np.sign(gradient[0]) == sign)
