"""Monitors: literal token means."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worked

from arl.kernels import monitors, surrogates

LOG_RATIO = worked.column(worked.LOG_RATIO)
ADVANTAGE = worked.per_sequence(worked.ADVANTAGE)
MASK = worked.mask()


def _mean(column):
  return float(jnp.sum(jnp.where(MASK, column, 0.0)) / 9)


def test_ratio_and_its_divergence():
  r = np.exp(np.asarray(LOG_RATIO)[MASK])
  got = jax.jit(monitors.ratio)(LOG_RATIO)
  np.testing.assert_allclose(_mean(got), 1.039230, atol=1e-6)
  divergence = np.mean(r - 1 - np.log(r))
  got = jax.jit(monitors.policy_kl)(LOG_RATIO)
  np.testing.assert_allclose(_mean(got), divergence, atol=1e-6)
  np.testing.assert_allclose(divergence, 0.039230, atol=1e-6)


def test_divergence_is_precise_near_one_and_bounded():
  got = monitors.policy_kl(jnp.asarray([1e-3, -1e-3, 0.0, 1e9, -1e9]))
  np.testing.assert_allclose(got[:3], [5.0017e-07, 4.9983e-07, 0], rtol=1e-3)
  assert np.all(np.isfinite(got)) and np.all(np.asarray(got) >= 0)


def test_clip_fraction():
  objective = surrogates.clip(LOG_RATIO, ADVANTAGE, low=0.2, high=0.2)
  got = jax.jit(monitors.clip_fraction)(LOG_RATIO, ADVANTAGE, objective)
  want = worked.column([[0, 0, 1], [0, 0], [0], [0, 1, 0]])
  np.testing.assert_array_equal(got, want)
  np.testing.assert_allclose(_mean(got), 0.222222, atol=1e-6)


@pytest.mark.parametrize('high, want', [(0.28, 3 / 9), (0.4, 1 / 9), (1.0, 0)])
def test_weight_capped(high, want):
  got = monitors.weight_capped(LOG_RATIO, high=high)
  np.testing.assert_allclose(_mean(got), want, atol=1e-6)
