"""Monitors: literal token means."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worked

from arl.kernels import monitors, surrogates, weights

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


@pytest.mark.parametrize('low, want', [(0.2, 5 / 9), (1.0, 3 / 9)])
def test_weight_dropped(low, want):
  got = monitors.weight_dropped(LOG_RATIO, low=low, high=0.28)
  np.testing.assert_allclose(_mean(got), want, atol=1e-6)


LOGP, OLD = worked.column(worked.LOGP), worked.column(worked.OLD_LOGP)
ROLLOUT = worked.column(worked.ROLLOUT_LOGP)
BOUNDS = {'low': 0.15, 'high': 0.15}


def test_tokens_that_are_dropped_have_no_objective():
  pairs = (
    (monitors.variation_dropped, weights.total_variation_masked),
    (monitors.binary_kl_dropped, weights.binary_kl_masked),
  )
  for monitor, surrogate in pairs:
    got, objective = (
      kernel(LOGP, ROLLOUT, ADVANTAGE, **BOUNDS)
      for kernel in (monitor, surrogate)
    )
    np.testing.assert_array_equal(got[MASK] != 0, objective[MASK] == 0)
  got = monitors.variation_dropped(LOGP, ROLLOUT, ADVANTAGE, **BOUNDS)
  np.testing.assert_allclose(_mean(got), 2 / 9, atol=1e-6)


@pytest.mark.parametrize('cap, want', [(2.0, 0), (1.3, 2 / 9), (1.05, 3 / 9)])
def test_rest_capped(cap, want):
  got = monitors.rest_capped(LOGP, OLD, cap=cap)
  np.testing.assert_allclose(_mean(got), want, atol=1e-6)


def test_bellman_residual():
  one = jnp.ones((1, 1), bool)
  logp, old, advantage = (
    jnp.full((1, 1), x) for x in (np.log(0.6), np.log(0.5), 0.6)
  )
  kernel = functools.partial(
    monitors.bellman_residual, seq=worked.level([0], 1)
  )
  got = kernel(logp, old, advantage, one)
  np.testing.assert_allclose(got, 0.397267, atol=1e-6)
  settled = kernel(old, old, jnp.zeros((1, 1)), one)
  np.testing.assert_array_equal(settled, [[0]])


def test_a_residual_is_a_sequences():
  got = jax.jit(monitors.bellman_residual)(
    *(jnp.where(MASK, x, jnp.nan) for x in (LOGP, OLD, ADVANTAGE)),
    MASK,
    worked.sequences(),
  )
  assert np.all(np.isfinite(got[MASK]))
  np.testing.assert_array_equal(got[0], jnp.full(3, got[0, 0]))


def test_a_monitor_takes_the_bounds_of_its_surrogate():
  for surrogate, monitor in monitors.CAPPED.items():
    bounds, own = (
      {
        name
        for name, p in inspect.signature(kernel).parameters.items()
        if p.kind == p.KEYWORD_ONLY
      }
      for kernel in (surrogate, monitor)
    )
    assert own and own <= bounds


def test_what_was_ranked():
  got = monitors.ranked(jnp.asarray([True, False]))
  np.testing.assert_array_equal(got, np.asarray([1, 0], np.float32))
