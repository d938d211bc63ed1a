"""Rewards to rewards: literal numbers."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import worked

from arl.kernels import shaping


def test_kl_in_reward():
  kernel = jax.jit(functools.partial(shaping.kl_in_reward, coef=0.1))
  got = kernel(
    worked.at_end(worked.REWARDS),
    worked.column(worked.OLD_LOGP),
    worked.column(worked.REF_LOGP),
  )
  want = [[-0.01, 0.02, 1.0], [0.03, 0.18], [0.01], [0.0, -0.01, 0.62]]
  np.testing.assert_allclose(got, worked.column(want), atol=1e-6)


def test_a_penalty_is_subtracted():
  got = shaping.kl_in_reward(
    jnp.float32(1.0), jnp.float32(-1.0), jnp.float32(-1.5), coef=0.2
  )
  np.testing.assert_allclose(got, 0.9)
