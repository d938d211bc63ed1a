"""Rewards to rewards: literal numbers."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worked

from arl import levels
from arl.kernels import returns, shaping


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


@pytest.mark.parametrize(
  'length, want',
  [(1, 0), (4, 0), (5, -0.25), (6, -0.5), (8, -1), (11, -1)],
)
def test_overlong_sequences_lose_up_to_one(length, want):
  rewards = worked.at_end((1.0, 0.5), jnp.nan, (length, 2))
  mask = worked.mask((length, 2))
  width = mask.shape[1]
  kernel = functools.partial(shaping.overlong, longest=8, buffer=4)
  got = jax.jit(kernel)(rewards, mask, worked.sequences(2, width))
  expected = worked.at_end((1.0 + want, 0.5), 0.0, (length, 2))
  np.testing.assert_allclose(jnp.where(mask, got, 0), expected)


@pytest.mark.parametrize(
  'length, want', [(16384, 0.0), (18432, -0.5), (21000, -1.0)]
)
def test_overlong_by_hand(length, want):
  rewards = jnp.zeros((1, length))
  seq = levels.Level(jnp.zeros((1, 1), jnp.int32), 1)
  got = shaping.overlong(
    rewards, jnp.ones((1, length), bool), seq, longest=20480, buffer=4096
  )
  np.testing.assert_array_equal(got[:, :-1], rewards[:, :-1])
  np.testing.assert_allclose(got[0, -1], want)


def test_lengths_are_of_the_policys_tokens_of_each_sequence():
  mask = jnp.asarray([[True, False, True, True, False, True, True, False]])
  seq = levels.Level(jnp.asarray([[0, 0, 0, 0, 1, 1, 1, 1]]), 2)
  rewards = jnp.zeros((1, 8))
  got = shaping.overlong(rewards, mask, seq, longest=4, buffer=2)
  np.testing.assert_allclose(got, [[0, 0, 0, -0.5, 0, 0, 0, 0]])


def test_scores_of_steps_join_the_outcome():
  kernel = functools.partial(shaping.with_process, coef=0.5)
  got = kernel(jnp.asarray([[0.0, 0, 1]]), jnp.asarray([[0.2, 0, 0.4]]))
  np.testing.assert_allclose(got, [[0.1, 0, 1.2]])


def test_a_sequence_that_was_cut_off_goes_on_at_its_last_value():
  mask = jnp.asarray([[True, True, False, True]] * 2)
  rewards = jnp.asarray([[0.0, 0, 9, 1]] * 2)
  value = jnp.asarray([[0.5, 0.6, 9.9, 0.8]] * 2)
  truncated = jnp.asarray([[True] * 4, [False] * 4])
  seq = worked.sequences(2, 4)
  shaped = shaping.bootstrap(rewards, value, truncated, mask, seq, gamma=0.5)
  np.testing.assert_allclose(shaped, [[0, 0, 9, 1.4], [0, 0, 9, 1]])
  got = returns.gae(shaped, value, mask, seq, gamma=0.5, lam=0.0)
  # The last error is 1 + 0.5 * 0.8 - 0.8 where it was cut off.
  want = [[-0.2, -0.2, 0, 0.6], [-0.2, -0.2, 0, 0.2]]
  np.testing.assert_allclose(got, want, atol=1e-6)
