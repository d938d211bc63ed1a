"""Losses of single answers, good or bad: KTO, which needs no pairs.

`preferred` says which a sequence is: 1 or -1, or 0 for one that only serves the
reference point, against which gains and losses count.
"""

import jax
import jax.numpy as jnp

from arl import levels, ranges
from arl.kernels import advantages, preference


def desirable(
  rewards: jax.Array, mismatched: jax.Array, mask: jax.Array, seq: levels.Level
) -> jax.Array:
  """1 in a sequence with R > 0, -1 in another; 0 if it is `mismatched`."""
  score = levels.total(rewards, seq, mask)
  sign = jnp.where(score > 0, jnp.ones((), score.dtype), -1)
  return jnp.where(mask & ~mismatched, sign, 0)


def reference_point(
  old_logp: jax.Array,
  ref_logp: jax.Array,
  mismatched: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
) -> jax.Array:
  """max(0, mean of the summed log-ratio over mismatched sequences): KTO's z.

  An estimate of KL(policy || reference) from answers put behind prompts that
  they do not answer (arXiv:2402.01306, 4.1), which gets no gradient. Of the
  policy when the batch began, and of all of the batch: so it is the same
  however an update is cut. Without a mismatched sequence it is 0.
  """
  log_ratio = preference.summed(old_logp, ref_logp, mask, seq)
  once = levels.last(seq, mask & mismatched)
  mean = levels.mean(log_ratio, advantages.whole_batch(mask), once)
  return jax.lax.stop_gradient(jnp.where(mask, jnp.maximum(mean, 0), 0))


def prospect(
  log_ratio: jax.Array,
  preferred: jax.Array,
  reference: jax.Array,
  *,
  beta: ranges.Positive = 0.1,
  desirable: ranges.NonNegative = 1.0,
  undesirable: ranges.NonNegative = 1.0,
) -> jax.Array:
  """-weight * (1 - sigmoid(s * beta * (log_ratio - reference))), s = preferred.

  KTO (arXiv:2402.01306, eq. 8), by `summed`: each sequence for itself, average
  them by `aggregations.sequence_mean`. The weights balance the classes: the
  paper keeps weight times number of the desirable within 1 to 4/3 of that of
  the undesirable. It differs from the paper by the constant weight alone.
  """
  weight = jnp.where(preferred > 0, desirable, undesirable)
  gain = preferred * beta * (log_ratio - jax.lax.stop_gradient(reference))
  loss = weight * jax.nn.sigmoid(-gain)
  return jnp.where(preferred != 0, -loss, 0)
