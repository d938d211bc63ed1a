"""Ratios: literal numbers, and who gets which gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worked

from arl import levels
from arl.kernels import ratios

LOGP = worked.column(worked.LOGP)
OLD = worked.column(worked.OLD_LOGP)
ROLLOUT = worked.column(worked.ROLLOUT_LOGP)
MASK = worked.mask()
SEQ = worked.sequences()


def _grad(kernel, weights, logp=LOGP, old=OLD, mask=MASK, seq=SEQ):
  """Gradient of sum(weights * log_ratio) in logp."""
  return jax.jit(
    jax.grad(lambda x: jnp.sum(weights * kernel(x, old, mask, seq)))
  )(logp)


def test_token():
  got = jnp.exp(jax.jit(ratios.token)(LOGP, OLD))
  want = worked.column(
    [
      [1.105171, 0.740818, 1.284025],
      [1.491825, 0.904837],
      [0.818731],
      [1.051271, 1.349859, 0.606531],
    ],
    fill=1.0,
  )
  np.testing.assert_allclose(got, want, atol=1e-6)


def test_sequence():
  got = jnp.exp(jax.jit(ratios.sequence)(LOGP, OLD, MASK, SEQ))
  want = worked.per_sequence([1.016806, 1.161834, 0.818731, 0.951229])
  np.testing.assert_allclose(got[MASK], want[MASK], atol=1e-6)


def test_sequence_spreads_the_gradient_evenly():
  weights = worked.column([[1.0, 2.0, 4.0], [1.0, 0.0], [3.0], [0.0, 0.0, 9.0]])
  want = worked.per_sequence([7 / 3, 1 / 2, 3, 3])
  got = _grad(ratios.sequence, weights)
  np.testing.assert_allclose(got, want, rtol=1e-6)


def test_sequence_token_has_the_value_of_the_sequence_bit_for_bit():
  pooled = jax.jit(ratios.sequence)(LOGP, OLD, MASK, SEQ)
  got = jax.jit(ratios.sequence_token)(LOGP, OLD, MASK, SEQ)
  np.testing.assert_array_equal(got, pooled)


def test_sequence_token_gives_each_token_its_own_gradient():
  weights = worked.column([[1.0, 2.0, 4.0], [1.0, 0.0], [3.0], [0.0, 0.0, 9.0]])
  got = _grad(ratios.sequence_token, weights)
  np.testing.assert_array_equal(got, weights)


def test_repeating_the_tokens_of_a_sequence_keeps_its_ratio():
  logp = jnp.asarray([[0.1, 0.3, 0.0, 0.0], [0.1, 0.3, 0.1, 0.3]])
  mask = jnp.asarray([[True, True, False, False], [True] * 4])
  got = ratios.sequence(logp, jnp.zeros((2, 4)), mask, worked.sequences(2, 4))
  np.testing.assert_allclose(got[mask], [0.2] * 6, rtol=1e-6)


def test_observations_do_not_enter_the_mean():
  logp = jnp.asarray([[0.1, 50.0, jnp.nan, 0.3]])
  mask = jnp.asarray([[True, False, False, True]])
  got = ratios.sequence(logp, jnp.zeros((1, 4)), mask, worked.sequences(1, 4))
  np.testing.assert_allclose(got[mask], [0.2, 0.2], rtol=1e-6)


def test_packed_sequences_have_their_own_ratio():
  seq = levels.Level(jnp.asarray([[0, 0, 1, 1]]), 2)
  logp = jnp.asarray([[0.1, 0.3, -0.1, -0.5]])
  got = ratios.sequence(logp, jnp.zeros((1, 4)), jnp.ones((1, 4), bool), seq)
  np.testing.assert_allclose(got, [[0.2, 0.2, -0.3, -0.3]], rtol=1e-6)


def test_trajectory():
  got = jax.jit(ratios.trajectory)(LOGP, OLD, MASK, SEQ)
  want = worked.per_sequence([0.05, 0.3, -0.2, -0.15])
  np.testing.assert_allclose(got[MASK], want[MASK], atol=1e-6)


def test_trajectory_to_the_behavior():
  got = jnp.exp(ratios.trajectory(LOGP, ROLLOUT, MASK, SEQ))
  want = worked.per_sequence([1.161834, 3.320117, 0.301194, 0.886920])
  np.testing.assert_allclose(got[MASK], want[MASK], atol=2e-6)


def test_trajectory_gives_every_token_the_whole_gradient():
  weights = worked.column([[1.0, 2.0, 4.0], [1.0, 0.0], [3.0], [0.0, 0.0, 9.0]])
  got = _grad(ratios.trajectory, weights)
  np.testing.assert_allclose(got, worked.per_sequence([7, 1, 3, 9]), rtol=1e-6)


TWO_TURNS = levels.Level(jnp.asarray([[3, 3, 0, 1]]), 4)
SHIFT = jnp.asarray([[0.1, -0.3, jnp.nan, 0.25]])
CHOSEN = jnp.asarray([[True, True, False, True]])


@pytest.mark.parametrize(
  'kernel, want, share',
  [(ratios.turn, 0.818731, 1.0), (ratios.turn_mean, 0.904837, 0.5)],
)
def test_turns(kernel, want, share):
  def pooled(logp):
    return kernel(logp, jnp.zeros((1, 4)), CHOSEN, TWO_TURNS)

  got = jnp.exp(jax.jit(pooled)(SHIFT))[CHOSEN]
  np.testing.assert_allclose(got, [want, want, 1.284025], atol=1e-6)
  gradient = jax.grad(lambda x: pooled(x)[0, 0])(SHIFT)
  np.testing.assert_allclose(gradient, [[share, share, 0, 0]])


@pytest.mark.parametrize(
  'kernel',
  [
    ratios.sequence,
    ratios.sequence_token,
    ratios.trajectory,
    ratios.turn,
    ratios.turn_mean,
  ],
)
def test_one_segment_a_row_or_an_id_a_token(kernel):
  rows = levels.Level(SEQ.ids[:, :1], SEQ.num)
  got, want = (
    jnp.broadcast_to(kernel(LOGP, OLD, MASK, level), MASK.shape)
    for level in (rows, SEQ)
  )
  np.testing.assert_allclose(got[MASK], want[MASK], rtol=1e-6)
