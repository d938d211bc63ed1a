"""Weights of tokens in a mean: kernels that give the column `importance`.

`aggregations.weighted` turns it into the weights of a loss. A credit: fixed
once a rollout batch, [B, T], not negative, without gradient.
"""

import jax
import jax.numpy as jnp

from arl import kinds, levels, ranges


def by_kind(
  kind: jax.Array,
  iteration: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  format: ranges.NonNegative = 1.0,
  name: ranges.NonNegative = 1.2,
  start: ranges.NonNegative = 0.6,
  growth: ranges.NonNegative = 0.002,
  most_think: ranges.NonNegative = 1.0,
  most_arguments: ranges.NonNegative = 1.2,
) -> jax.Array:
  """Weights by the structural kind of a token, of mean 1 in each sequence.

  ResT (arXiv:2509.21826, official code read). Format and tool names have fixed
  weights; thinking and arguments begin at `start` and gain `growth` a rollout
  batch, up to their most; other tokens have none. The mean is over positive
  weights, so a sequence without any drops out. Left out: the code's limits to
  [0.001, 8], which its weights do not reach. The paper argues from the entropy
  of the kinds; the schedule does not look at it.
  """
  batches = jnp.asarray(iteration, jnp.result_type(float))
  grown = start + growth * batches
  weight_of: dict[int, float | jax.Array] = {
    kinds.FORMAT: format,
    kinds.NAME: name,
    kinds.THINK: jnp.minimum(grown, most_think),
    kinds.ARGUMENTS: jnp.minimum(grown, most_arguments),
  }
  weight = jnp.zeros(mask.shape, batches.dtype)
  for each, value in weight_of.items():
    weight = jnp.where(mask & (kind == each), value, weight)
  typical = levels.mean(weight, seq, weight > 0)
  return weight / jnp.where(typical > 0, typical, 1)


def discriminative(
  features: jax.Array,
  advantage: jax.Array,
  mask: jax.Array,
  *,
  rounds: ranges.Lag = 1,
  low: ranges.NonNegative = 0.8,
  high: ranges.NonNegative = 1.2,
) -> jax.Array:
  """From `low` to `high`, the more a token's gradient tells its side apart.

  DelTA (arXiv:2605.21467). The sides are the tokens of positive and of negative
  advantage in the batch, each with the mean of its `features`, weighted by
  |advantage|. A token's gap is its squared distance to the other side's mean
  less that to its own, alpha = sigmoid(gap / scale); in each of `rounds` the
  means are taken again, weighted by alpha too. Tokens of advantage 0 weigh 1,
  and all do where a side is empty. The paper's appendix has the scale of a side
  but is not public; ours is its mean |gap|. `features` stand in for gradients.
  """
  features = jnp.where(mask[..., None], features, 0).astype(advantage.dtype)
  size = jnp.where(mask, jnp.abs(advantage), 0)
  better, worse = mask & (advantage > 0), mask & (advantage < 0)
  alpha = jnp.ones_like(size)
  for _ in range(rounds + 1):
    alpha = _belonging(features, size * alpha, better, worse)
  counts = (better | worse) & jnp.any(better) & jnp.any(worse)
  weight = jnp.where(counts, low + (high - low) * alpha, 1)
  return jax.lax.stop_gradient(jnp.where(mask, weight, 0))


def _belonging(features, weight, better, worse):
  """How clearly a token is on its side, in [0, 1]; one half is not at all."""
  to_better = _distance(features, jnp.where(better, weight, 0))
  to_worse = _distance(features, jnp.where(worse, weight, 0))
  gap = jnp.where(better, to_worse - to_better, to_better - to_worse)
  scale = jnp.where(better, _mean_size(gap, better), _mean_size(gap, worse))
  return jax.nn.sigmoid(gap / jnp.where(scale > 0, scale, 1))


def _distance(features, weight):
  """Squared distance [B, T] of features [B, T, K] to their weighted mean."""
  total = jnp.sum(weight)
  center = jnp.einsum('bt,btk->k', weight, features)
  center = center / jnp.where(total > 0, total, 1)
  return jnp.sum(jnp.square(features - center[None, None]), axis=-1)


def _mean_size(x, where):
  n = jnp.maximum(jnp.sum(where, dtype=x.dtype), 1)
  return jnp.sum(jnp.where(where, jnp.abs(x), 0)) / n
