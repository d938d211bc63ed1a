"""Backward recursions, against plain loops over each sequence's own tokens."""

import functools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worked

from arl import levels
from arl.kernels import advantages, returns, shaping

SHAPE, NUM = (2, 9), 6


def _slow_gae(rewards, values, gamma, lam):
  """Plain GAE of one sequence without gaps."""
  out, later, next_value = [], 0.0, 0.0
  for reward, value in zip(reversed(rewards), reversed(values)):
    later = reward + gamma * next_value - value + gamma * lam * later
    next_value = value
    out.append(later)
  return out[::-1]


def _slow(rewards, values, mask, ids, gamma, lam):
  """Compress each sequence to its own tokens, recur, scatter back."""
  out = np.zeros(SHAPE)
  for sequence in range(NUM):
    tokens = [t for t in np.ndindex(SHAPE) if mask[t] and ids[t] == sequence]
    own_rewards = [float(rewards[t]) for t in tokens]
    own_values = [float(values[t]) for t in tokens]
    gae = _slow_gae(own_rewards, own_values, gamma, lam)
    for token, value in zip(tokens, gae):
      out[token] = value
  return out


def _random(seed):
  """Up to three sequences packed into each of two rows, with gaps."""
  rng = np.random.default_rng(seed)
  rewards, values = rng.normal(size=(2, *SHAPE)).astype(np.float32)
  cuts = np.sort(rng.integers(0, SHAPE[1], size=(2, 2)), axis=1)
  steps = np.arange(SHAPE[1])
  order = (steps[None, :, None] >= cuts[:, None]).sum(-1)
  ids = (order + 3 * np.arange(2)[:, None]).astype(np.int32)
  return rewards, values, rng.random(SHAPE) < 0.7, ids


@jax.jit
def _all(rewards, values, mask, ids, gamma, lam):
  seq = levels.Level(ids, NUM)
  discounts = {'gamma': gamma, 'lam': lam}
  return (
    returns.gae(rewards, values, mask, seq, **discounts),
    returns.lambda_return(rewards, values, mask, seq, **discounts),
    returns.reward_to_go(rewards, mask, seq, gamma=gamma),
  )


def _run(rewards, values, mask, ids, gamma, lam):
  rewards, values = (jnp.asarray(x, jnp.float32) for x in (rewards, values))
  discounts = jnp.float32(gamma), jnp.float32(lam)
  return _all(rewards, values, jnp.asarray(mask), jnp.asarray(ids), *discounts)


@hypothesis.settings(max_examples=25, deadline=None)
@hypothesis.given(
  seed=st.integers(0, 2**32 - 1),
  gamma=st.sampled_from([1.0, 0.9]),
  lam=st.sampled_from([0.0, 0.8, 1.0]),
)
def test_equal_plain_recursions_over_the_policys_tokens(seed, gamma, lam):
  rewards, values, mask, ids = _random(seed)
  advantage, target, to_go = _run(rewards, values, mask, ids, gamma, lam)
  want = _slow(rewards, values, mask, ids, gamma, lam)
  np.testing.assert_allclose(advantage, want, atol=1e-5)
  want_target = np.where(mask, want + values, 0)
  np.testing.assert_allclose(target, want_target, atol=1e-5)
  nothing = np.zeros(SHAPE)
  want = _slow(rewards, nothing, mask, ids, gamma, 1.0)
  np.testing.assert_allclose(to_go, want, atol=1e-5)


@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf, 1e9])
def test_what_the_policy_did_not_write_is_never_read(bad):
  rewards, values, mask, ids = _random(5)
  clean = _run(rewards, values, mask, ids, 0.9, 0.8)
  rewards = np.where(mask, rewards, np.float32(bad))
  values = np.where(mask, values, np.float32(bad))
  ids = np.where(mask, ids, np.int32(-9))
  got = _run(rewards, values, mask, ids, 0.9, 0.8)
  for a, b in zip(got, clean):
    np.testing.assert_array_equal(a, b)


def test_sequences_that_fill_rows_may_say_so_once_a_row():
  rewards, values, mask, _ = _random(7)
  rows = np.arange(2, dtype=np.int32)[:, None]
  got = _run(rewards, values, mask, rows, 0.9, 0.8)
  want = _run(rewards, values, mask, np.broadcast_to(rows, SHAPE), 0.9, 0.8)
  for a, b in zip(got, want):
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize('tokens', [0, 1])
def test_sequences_of_no_token_and_of_one(tokens):
  mask = np.arange(3)[None] < tokens
  got = _run(np.full((1, 3), 2.0), np.full((1, 3), 0.5), mask, [[0]], 0.9, 0.8)
  for column, want in zip(got, (1.5, 2.0, 2.0)):
    np.testing.assert_array_equal(column, np.where(mask, want, 0))


def test_no_gradient_passes():
  rewards, values, mask, ids = _random(6)

  def total(rewards, values):
    columns = _run(rewards, values, mask, ids, 0.9, 0.8)
    return sum(jnp.sum(returns.whiten(column, mask)) for column in columns)

  fill = np.where(mask, rewards, np.float32('nan'))
  for got in jax.grad(total, (0, 1))(fill, values):
    np.testing.assert_array_equal(got, np.zeros(SHAPE))


ONE = functools.partial(worked.sequences, 1)


def test_observations_are_skipped_and_do_not_discount():
  mask = jnp.asarray([[True, True, False, False, True]])
  rewards = jnp.asarray([[0.0, 0, 0, 0, 2]])
  values = jnp.asarray([[0.5, 0.5, 90, -70, 1]])
  cases = ((1.0, 1.0, [1.5, 1.5, 0, 0, 1]), (0.9, 0.8, [0.7564, 1.12, 0, 0, 1]))
  for gamma, lam, want in cases:
    kernel = jax.jit(functools.partial(returns.gae, gamma=gamma, lam=lam))
    got = kernel(rewards, values, mask, ONE(5))
    np.testing.assert_allclose(got, [want], atol=1e-6)
  got = returns.reward_to_go(rewards, mask, ONE(5), gamma=0.9)
  np.testing.assert_allclose(got, [[1.62, 1.8, 0, 0, 2]], atol=1e-6)


@pytest.mark.parametrize(
  'lam, advantage, target',
  [
    (0.95, [0.4705, 0.39, 0, 0.2], [0.9705, 0.99, 0, 1]),
    (1.0, [0.5, 0.4, 0, 0.2], [1, 1, 0, 1]),
  ],
)
def test_gae_and_its_target_by_hand(lam, advantage, target):
  columns = (
    jnp.asarray([[0.0, 0, 0, 1]]),
    jnp.asarray([[0.5, 0.6, 9.9, 0.8]]),
    jnp.asarray([[True, True, False, True]]),
    ONE(4),
  )
  got = returns.gae(*columns, gamma=1.0, lam=lam)
  np.testing.assert_allclose(got, [advantage], atol=1e-6)
  got = returns.lambda_return(*columns, gamma=1.0, lam=lam)
  np.testing.assert_allclose(got, [target], atol=1e-6)


def _decay(length, alpha):
  """What GAE by length passes on from the last token to the one before it."""
  rewards = jnp.zeros((1, length)).at[0, -1].set(1)
  got = returns.length_adaptive_gae(
    rewards,
    jnp.zeros((1, length)),
    jnp.ones((1, length), bool),
    ONE(length),
    gamma=1.0,
    alpha=alpha,
  )
  return float(got[0, -2])


@pytest.mark.parametrize(
  'length, alpha, want',
  [(100, 0.05, 0.8), (1000, 0.05, 0.98), (10, 0.05, 0), (100, 0.4, 0.975)],
)
def test_the_longer_the_sequence_the_nearer_its_lam_is_to_1(
  length, alpha, want
):
  np.testing.assert_allclose(_decay(length, alpha), want, rtol=1e-5)


def test_gae_by_length_by_hand():
  got = returns.length_adaptive_gae(
    jnp.asarray([[0.0, 0, 0, 1]]),
    jnp.asarray([[0.5, 0.6, 9.9, 0.8]]),
    jnp.asarray([[True, True, False, True]]),
    ONE(4),
    gamma=1.0,
    alpha=0.4,
  )
  np.testing.assert_allclose(got, [[0.138889, 0.233333, 0, 0.2]], atol=1e-6)


@hypothesis.settings(max_examples=10, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32 - 1))
def test_gae_by_length_is_gae_of_each_sequence(seed):
  rewards, values, mask, ids = _random(seed)
  got = _BY_LENGTH(rewards, values, mask, levels.Level(jnp.asarray(ids), NUM))
  want = np.zeros(SHAPE)
  for sequence in range(NUM):
    own = mask & (ids == sequence)
    lam = max(0, 1 - 1 / (0.4 * max(own.sum(), 1)))
    want += _slow(rewards, values, own, ids, 0.9, lam)
  np.testing.assert_allclose(got, want, atol=1e-5)


_BY_LENGTH = jax.jit(
  functools.partial(returns.length_adaptive_gae, gamma=0.9, alpha=0.4)
)


def test_returns_and_whitening_of_penalized_rewards():
  rewards = shaping.kl_in_reward(
    worked.at_end(worked.REWARDS),
    worked.column(worked.OLD_LOGP),
    worked.column(worked.REF_LOGP),
    coef=0.1,
  )
  to_go = returns.reward_to_go(rewards, worked.mask(), worked.sequences())
  want = [[1.01, 1.02, 1.0], [0.21, 0.18], [0.01], [0.61, 0.61, 0.62]]
  np.testing.assert_allclose(to_go, worked.column(want), atol=1e-6)
  white = jax.jit(returns.whiten)(to_go, worked.mask())
  want = [
    [1.105242, 1.131282, 1.079203],
    [-0.977937, -1.056056],
    [-1.498732],
    [0.063653, 0.063653, 0.089692],
  ]
  np.testing.assert_allclose(white, worked.column(want), atol=2e-6)


def test_whitening_after_a_group_baseline():
  columns = worked.mask(), worked.sequences(), worked.one_group()
  center = advantages.group_center(worked.at_end(worked.REWARDS), *columns)
  got = returns.whiten(center, worked.mask())
  want = worked.per_sequence((1.11094, -0.993999, -1.520234, 0.058471))
  np.testing.assert_allclose(got, want, atol=2e-6)


def _slow_whiten(values):
  middle = sum(values) / len(values)
  square = sum((v - middle) ** 2 for v in values)
  return [
    (v - middle) / np.sqrt(square / (len(values) - 1) + 1e-8) for v in values
  ]


@hypothesis.settings(max_examples=20, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32 - 1))
def test_whiten_equals_a_plain_loop_over_the_mask(seed):
  values, _, mask, _ = _random(seed)
  mask[0, :2] = True
  got = jax.jit(returns.whiten)(np.where(mask, values, np.float32('nan')), mask)
  want = np.zeros(SHAPE)
  want[mask] = _slow_whiten([float(v) for v in values[mask]])
  np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.parametrize('tokens', [0, 1])
def test_whitening_fewer_than_two_tokens_gives_zero(tokens):
  mask = worked.mask((tokens, 0)) if tokens else jnp.zeros((2, 3), bool)
  got = returns.whiten(jnp.full(mask.shape, 7.0), mask)
  np.testing.assert_array_equal(got, np.zeros(mask.shape))


def test_whitening_equal_advantages_gives_zero():
  got = returns.whiten(jnp.full((2, 4), 0.75), jnp.ones((2, 4), bool))
  np.testing.assert_array_equal(got, np.zeros((2, 4)))
