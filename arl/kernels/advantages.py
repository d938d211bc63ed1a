"""Advantages from whole-sequence rewards, against a baseline from the group.

A kernel reads columns [B, T] and gives the column `advantage` [B, T], constant
on each sequence. R is the sum of a sequence's rewards; each sequence counts
once, however long it is. A group of one, or whose rewards are all equal up to
rounding, gives exactly 0: it holds no comparison.
"""

import jax
import jax.numpy as jnp

from arl import levels


def _compare(rewards, mask, seq, group):
  """R of each token's sequence, one mark a sequence, and where R varies."""
  score = levels.total(rewards, seq, mask)
  once = levels.last(seq, mask)
  top = levels.highest(score, group, once)
  bottom = levels.lowest(score, group, once)
  size = levels.highest(levels.total(jnp.abs(rewards), seq, mask), group, once)
  varies = top - bottom > 4 * jnp.finfo(score.dtype).eps * size
  return score, once, mask & varies


def group_center(
  rewards: jax.Array, mask: jax.Array, seq: levels.Level, group: levels.Level
) -> jax.Array:
  """R - mean of the group (Dr. GRPO, arXiv:2503.20783, eq. 3)."""
  score, once, varies = _compare(rewards, mask, seq, group)
  return jnp.where(varies, score - levels.mean(score, group, once), 0)


def group_normalize(
  rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  *,
  eps: float = 1e-6,
) -> jax.Array:
  """(R - mean) / (std + eps) within the group (GRPO, arXiv:2402.03300, 4.1.2).

  The paper does not say which deviation; as in the public trainers it is the
  sample one (n - 1). They differ on a group of one, which here gives 0.
  """
  score, once, varies = _compare(rewards, mask, seq, group)
  centered = score - levels.mean(score, group, once)
  deviation = levels.std(score, group, once)
  return jnp.where(varies, centered / (deviation + eps), 0)


def leave_one_out(
  rewards: jax.Array, mask: jax.Array, seq: levels.Level, group: levels.Level
) -> jax.Array:
  """R - mean of the others of the group (RLOO, arXiv:2402.14740, eq. 8)."""
  score, once, varies = _compare(rewards, mask, seq, group)
  n = levels.count(group, once, score.dtype)
  centered = score - levels.mean(score, group, once)
  return jnp.where(varies, centered * n / jnp.maximum(n - 1, 1), 0)
