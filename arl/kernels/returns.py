"""Returns and advantages that run backward through time.

Kernels read columns [B, T] and give a column [B, T]. Time is the sequence of
the policy's own tokens: what it did not write (the prompt, observations,
padding) is skipped, costs no discount and gets 0. Sequences packed into one row
do not see each other. A sequence must lie in one row. Nothing here carries a
gradient.
"""

import functools

import jax
import jax.numpy as jnp

from arl import levels, ranges
from arl.kernels import scans


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

  return scans.back(step, mask, seq, rewards, carried=1)


def _step(carry, x, gamma, lam):
  """One step of GAE: the advantage and the value of a token."""
  (later, next_value), (reward, value) = carry, x
  delta = reward + gamma * next_value - value
  return delta + gamma * lam * later, value


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
  step = functools.partial(_step, gamma=gamma, lam=lam)
  return scans.back(step, mask, seq, rewards, old_value, carried=2)


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

  def step(carry, x):
    *own, lam = x
    return _step(carry, own, gamma, lam)

  columns = rewards, old_value, decay
  return scans.back(step, mask, seq, *columns, carried=2)


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
