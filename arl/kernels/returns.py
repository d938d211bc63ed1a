"""Returns and advantages that run backward through time.

Kernels read columns [B, T] and give a column [B, T]. Time is the sequence of
the policy's own tokens: what it did not write (the prompt, observations,
padding) is skipped, costs no discount and gets 0. Sequences packed into one row
do not see each other. A sequence must lie in one row. Nothing here carries a
gradient.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from arl import levels, ranges


def scan_back(
  step: Callable,
  mask: jax.Array,
  seq: levels.Level,
  *columns: jax.Array,
  carried: int,
) -> jax.Array:
  """Runs `step(carry, x) -> carry` from last to first over the policy's tokens.

  Args:
    step: of two tuples of [B]: the carry and, at one token, the columns.
    mask: bool [B, T], the tokens that take a step; others leave the carry.
    seq: the carry starts at 0 at the end of each of its segments.
    *columns: [B, T].
    carried: how many entries the carry has.

  Returns:
    The first entry of the carry after each token, 0 off the mask; no gradient.
  """
  columns = tuple(jnp.broadcast_to(x, mask.shape) for x in columns)
  columns = jax.lax.stop_gradient(columns)
  seq_ids = jnp.broadcast_to(seq.ids, mask.shape)
  zero = jnp.zeros(mask.shape[0], columns[0].dtype)
  carry = (zero,) * carried

  def body(state, x):
    carry, seq_of_carry = state
    on, ids, *xs = x
    same = ids == seq_of_carry
    start = tuple(jnp.where(same, c, 0) for c in carry)
    new = step(start, tuple(xs))
    carry = tuple(jnp.where(on, n, c) for n, c in zip(new, carry))
    out = jnp.where(on, new[0], 0)
    return (carry, jnp.where(on, ids, seq_of_carry)), out

  nothing = jnp.full(mask.shape[0], -1, seq_ids.dtype)
  xs = tuple(x.T for x in (mask, seq_ids, *columns))
  _, out = jax.lax.scan(body, (carry, nothing), xs, reverse=True)
  return out.T


def reward_to_go(
  rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  gamma: ranges.Fraction = 1.0,
) -> jax.Array:
  """G_t = r_t + gamma G_{t+1}, over the policy's tokens."""

  def step(carry, x):
    (later,), (reward,) = carry, x
    return (reward + gamma * later,)

  return scan_back(step, mask, seq, rewards, carried=1)


def _estimate(rewards, value, decay, mask, seq, gamma):
  """GAE whose lam is the column `decay`."""

  def step(carry, x):
    (later, next_value), (reward, value, decay) = carry, x
    delta = reward + gamma * next_value - value
    return delta + gamma * decay * later, value

  return scan_back(step, mask, seq, rewards, value, decay, carried=2)


def gae(
  rewards: jax.Array,
  old_value: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  gamma: ranges.Fraction,
  lam: ranges.Fraction,
) -> jax.Array:
  """Generalized advantage estimation (arXiv:1506.02438, eq. 16).

  A_t = delta_t + gamma lam A_{t+1}, delta_t = r_t + gamma V_{t+1} - V_t; `V_t`
  is the value before token t is chosen, and 0 after a sequence's last token. A
  sequence that a limit cut off is no exception: see `shaping.bootstrap`.
  """
  return _estimate(
    rewards, old_value, jnp.full_like(rewards, lam), mask, seq, gamma
  )


def length_adaptive_gae(
  rewards: jax.Array,
  old_value: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  gamma: ranges.Fraction,
  alpha: ranges.Positive = 0.05,
) -> jax.Array:
  """GAE with lam = clip(1 - 1 / (alpha * length), 0, 1) in each sequence.

  Length-adaptive GAE (VAPO, arXiv:2504.05118): the powers of lam sum to about
  alpha * length, so the reward at the end reaches a fixed share of any
  sequence. The length counts the policy's tokens; below 1 / alpha of them,
  where the published formula is negative, lam is 0.
  """
  length = jnp.maximum(levels.count(seq, mask, rewards.dtype), 1)
  decay = jnp.clip(1 - 1 / (alpha * length), 0, 1)
  return _estimate(rewards, old_value, decay, mask, seq, gamma)


def lambda_return(
  rewards: jax.Array,
  old_value: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  gamma: ranges.Fraction,
  lam: ranges.Fraction,
) -> jax.Array:
  """GAE + V: the critic's target, before any whitening of the advantage.

  With lam=1 it is the discounted sum of rewards. A critic and a policy that
  want another lam each (VC-PPO, arXiv:2503.01491) call `gae` and this.
  """
  advantage = gae(rewards, old_value, mask, seq, gamma=gamma, lam=lam)
  target = jnp.where(mask, advantage + old_value, 0)
  return jax.lax.stop_gradient(target)


def whiten(advantage: jax.Array, mask: jax.Array) -> jax.Array:
  """(A - mean) / sqrt(var + 1e-8) over all tokens on the mask.

  The variance divides by n - 1. With fewer than two tokens only the mean goes.
  """
  n = jnp.sum(mask, dtype=advantage.dtype)
  kept = jnp.where(mask, advantage, 0)
  centered = jnp.where(mask, kept - jnp.sum(kept) / jnp.maximum(n, 1), 0)
  variance = jnp.sum(jnp.square(centered)) / jnp.maximum(n - 1, 1)
  scaled = jnp.where(n > 1, centered * jax.lax.rsqrt(variance + 1e-8), centered)
  return jax.lax.stop_gradient(scaled)
