"""Aggregation as weights: how tokens add up to one number.

A kernel reads `mask` and levels and gives the column `weights` [B, T], known
before the forward pass; a term's loss is the sum of weights times losses. So
microbatches, packing and sharding are exact. Counts are of the whole update.
"""

import jax
import jax.numpy as jnp

from arl import levels, ranges


def _share(mask, count):
  return jnp.where(mask, 1 / jnp.maximum(count, 1), 0)


def _sequences(mask, seq):
  return levels.number(seq, mask)


def token_mean(mask: jax.Array) -> jax.Array:
  """Every token weighs the same (DAPO, arXiv:2503.14476, eq. 12). Sums to 1."""
  return _share(mask, jnp.sum(mask, dtype=float))


def sequence_mean(mask: jax.Array, seq: levels.Level) -> jax.Array:
  """The mean over sequences of token means (GRPO, arXiv:2402.03300, eq. 3).

  A sequence without a token on the mask does not count. Sums to 1.
  """
  return _share(mask, levels.count(seq, mask) * _sequences(mask, seq))


def sequence_sum(mask: jax.Array, seq: levels.Level) -> jax.Array:
  """The mean over sequences of token sums (REINFORCE on sequences)."""
  return _share(mask, _sequences(mask, seq))


def constant(
  mask: jax.Array, seq: levels.Level, *, length: ranges.Positive
) -> jax.Array:
  """Token sums divided by a constant length (Dr. GRPO, arXiv:2503.20783).

  `length` is the generation budget in tokens, one number for a whole run; the
  mean is over sequences.
  """
  return _share(mask, _sequences(mask, seq)) / length


def group_mean(
  mask: jax.Array, seq: levels.Level, group: levels.Level
) -> jax.Array:
  """Each group weighs the same, in it each sequence, in it each token.

  For objectives of whole groups, of which every token carries the value, and
  where groups differ in size. Sums to 1.
  """
  once = levels.last(seq, mask)
  sequences = levels.count(group, once)
  groups = levels.number(group, mask)
  return _share(mask, levels.count(seq, mask) * sequences * groups)


def weighted(mask: jax.Array, importance: jax.Array) -> jax.Array:
  """Tokens weigh by `importance`, over its sum on the mask.

  As in ResT (arXiv:2509.21826) and DelTA (arXiv:2605.21467); a credit step
  gives the importance, at least 0. Sums to 1, or to 0 if all of it is 0.
  """
  kept = jnp.where(mask, importance, 0)
  return kept / (jnp.sum(kept) + 1e-8)
