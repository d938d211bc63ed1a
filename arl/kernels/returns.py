"""Returns and advantages that run backward through time.

Kernels read columns [B, T] and give a column [B, T]. Time is the sequence of
the policy's own tokens: what it did not write (the prompt, observations,
padding) is skipped, costs no discount and gets 0. Sequences packed into one row
do not see each other. A sequence must lie in one row.
"""

import jax
import jax.numpy as jnp

from arl import levels


def _scan_back(step, mask, seq, *columns):
  """Runs `step(carry, x) -> carry` from last to first over the policy's tokens.

  `carry` starts at 0 at the end of each sequence; the result is the carry after
  each token, 0 off the mask.
  """
  zero = jnp.zeros(mask.shape[0], columns[0].dtype)
  carry = tuple(zero for _ in columns)

  def body(state, x):
    carry, seq_of_carry = state
    on, ids, *xs = x
    same = ids == seq_of_carry
    start = tuple(jnp.where(same, c, 0) for c in carry)
    new = step(start, tuple(xs))
    carry = tuple(jnp.where(on, n, c) for n, c in zip(new, carry))
    out = jnp.where(on, new[0], 0)
    return (carry, jnp.where(on, ids, seq_of_carry)), out

  nothing = jnp.full(mask.shape[0], -1, seq.ids.dtype)
  xs = tuple(x.T for x in (mask, seq.ids, *columns))
  _, out = jax.lax.scan(body, (carry, nothing), xs, reverse=True)
  return out.T


def reward_to_go(
  rewards: jax.Array, mask: jax.Array, seq: levels.Level, *, gamma: float = 1.0
) -> jax.Array:
  """G_t = r_t + gamma G_{t+1}, over the policy's tokens."""

  def step(carry, x):
    (later,), (reward,) = carry, x
    return (reward + gamma * later,)

  return _scan_back(step, mask, seq, rewards)


def gae(
  rewards: jax.Array,
  old_value: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  gamma: float,
  lam: float,
) -> jax.Array:
  """Generalized advantage estimation (arXiv:1506.02438, eq. 16).

  A_t = delta_t + gamma lam A_{t+1}, delta_t = r_t + gamma V_{t+1} - V_t; `V_t`
  is the value before token t is chosen, and 0 after a sequence's last token.
  """

  def step(carry, x):
    (later, next_value), (reward, value) = carry, x
    delta = reward + gamma * next_value - value
    return delta + gamma * lam * later, value

  return _scan_back(step, mask, seq, rewards, old_value)


def lambda_return(
  rewards: jax.Array,
  old_value: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  gamma: float,
  lam: float,
) -> jax.Array:
  """GAE + V: the critic's target, before any whitening of the advantage."""
  advantage = gae(rewards, old_value, mask, seq, gamma=gamma, lam=lam)
  return jnp.where(mask, advantage + old_value, 0)


def whiten(advantage: jax.Array, mask: jax.Array) -> jax.Array:
  """(A - mean) / sqrt(var + 1e-8) over all tokens on the mask.

  The variance divides by n - 1. With fewer than two tokens only the mean goes.
  """
  n = jnp.sum(mask, dtype=advantage.dtype)
  kept = jnp.where(mask, advantage, 0)
  centered = jnp.where(mask, kept - jnp.sum(kept) / jnp.maximum(n, 1), 0)
  variance = jnp.sum(jnp.square(centered)) / jnp.maximum(n - 1, 1)
  return jnp.where(n > 1, centered * jax.lax.rsqrt(variance + 1e-8), centered)
