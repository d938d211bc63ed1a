"""Corrections: what multiplies an objective, without a gradient.

A kernel reads columns [B, T] and gives a factor [B, T]. rho is the ratio of the
trainer's policy when the batch began to the policy that sampled,
exp(old_logp - rollout_logp): it corrects for a sampler that computes other
log-probs and for one that is some updates behind. A factor of 0 takes a token
out of the loss but leaves it in the denominator: what stays gains no weight.

A ratio that is itself to `rollout_logp` counts rho already; use it with none of
those that weigh by rho.
"""

import jax
import jax.numpy as jnp

from arl import levels, ranges
from arl.kernels import surrogates


def _rho(log_ratio):
  return jax.lax.stop_gradient(surrogates.ratio(log_ratio))


def _keep(where, like):
  return jnp.where(where, jnp.ones((), like.dtype), 0)


def importance(old_logp: jax.Array, rollout_logp: jax.Array) -> jax.Array:
  """rho, a token, without a limit.

  Decoupled PPO, arXiv:2110.00641, eq. 12 and AReaL, arXiv:2505.24298: clipping
  is around the policy when the batch began, the data from an older one. With
  `masked` and low = 0 large ratios are left out.
  """
  return _rho(old_logp - rollout_logp)


def truncated(
  old_logp: jax.Array,
  rollout_logp: jax.Array,
  *,
  low: ranges.NonNegative = 0.0,
  high: ranges.Positive = 2.0,
) -> jax.Array:
  """clip(rho, low, high), a token.

  Truncated importance sampling (F. Yao et al., "Your efficient RL framework
  secretly brings you off-policy RL training", 2025). Here the limits are those
  of rho itself, not distances from 1.
  """
  return jnp.clip(_rho(old_logp - rollout_logp), low, high)


def truncated_sequence(
  old_logp: jax.Array,
  rollout_logp: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  low: ranges.NonNegative = 0.0,
  high: ranges.Positive = 2.0,
) -> jax.Array:
  """The product of a sequence's rho, then truncated: one factor a sequence.

  Unbiased but for the truncation, which a product over many tokens reaches
  soon.
  """
  product = levels.total(old_logp - rollout_logp, seq, mask)
  return jnp.clip(_rho(product), low, high)


def masked(
  old_logp: jax.Array,
  rollout_logp: jax.Array,
  *,
  low: ranges.NonNegative = 0.5,
  high: ranges.Positive = 2.0,
) -> jax.Array:
  """rho where low <= rho <= high, otherwise 0.

  Masked importance sampling: IcePop (Ring-1T, arXiv:2510.18855) and the
  reasoning stage of GLM-5 (arXiv:2602.15763). The band is that of public
  trainers; Ring-1T's own is wider.
  """
  rho = _rho(old_logp - rollout_logp)
  return _in_band(rho, rho, rho, low, high)


def _in_band(rho, least, most, low, high):
  """rho where `least` and `most` lie in the band, otherwise 0."""
  return jnp.where((low <= least) & (most <= high), rho, 0)


def masked_by_product(
  old_logp: jax.Array,
  rollout_logp: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  low: ranges.NonNegative = 0.5,
  high: ranges.Positive = 2.0,
) -> jax.Array:
  """rho, a token, in sequences whose product of rho lies in the band."""
  product = _rho(levels.total(old_logp - rollout_logp, seq, mask))
  rho = _rho(old_logp - rollout_logp)
  return _in_band(rho, product, product, low, high)


def masked_by_mean(
  old_logp: jax.Array,
  rollout_logp: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  low: ranges.NonNegative = 0.5,
  high: ranges.Positive = 2.0,
) -> jax.Array:
  """rho, a token, in sequences whose geometric mean of rho lies in the band."""
  mean = _rho(levels.mean(old_logp - rollout_logp, seq, mask))
  rho = _rho(old_logp - rollout_logp)
  return _in_band(rho, mean, mean, low, high)


def masked_by_largest(
  old_logp: jax.Array,
  rollout_logp: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  low: ranges.NonNegative = 0.5,
  high: ranges.Positive = 2.0,
) -> jax.Array:
  """rho, a token, in sequences all of whose tokens lie in the band.

  The token that is furthest away decides, on whichever side it is.
  """
  rho = _rho(old_logp - rollout_logp)
  top = levels.highest(rho, seq, mask)
  bottom = levels.lowest(rho, seq, mask)
  return _in_band(rho, bottom, top, low, high)


def self_normalized(
  old_logp: jax.Array,
  rollout_logp: jax.Array,
  mask: jax.Array,
  *,
  low: ranges.NonNegative = 0.0,
  high: ranges.Positive = 2.0,
) -> jax.Array:
  """`truncated` over its mean over all tokens on the mask.

  A mean over the batch would depend on how a loss is cut into microbatches: run
  it as a credit step named 'factor' and correct by `credited`.
  """
  rho = truncated(old_logp, rollout_logp, low=low, high=high)
  return _over_mean(rho, mask)


def self_normalized_sequence(
  old_logp: jax.Array,
  rollout_logp: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  low: ranges.NonNegative = 0.0,
  high: ranges.Positive = 2.0,
) -> jax.Array:
  """`truncated_sequence` over its mean over all sequences.

  A credit step, as `self_normalized`.
  """
  rho = truncated_sequence(
    old_logp, rollout_logp, mask, seq, low=low, high=high
  )
  return _over_mean(rho, levels.last(seq, mask))


def _over_mean(rho, once):
  """rho over its mean where `once`; as it is where that is 0."""
  n = jnp.maximum(jnp.sum(once, dtype=rho.dtype), 1)
  mean = jnp.sum(jnp.where(once, rho, 0)) / n
  return rho / jnp.where(mean > 0, mean, 1)


def credited(factor: jax.Array) -> jax.Array:
  """The factor that a credit step gave, computed over the whole batch."""
  return jax.lax.stop_gradient(factor)


def two_level(
  old_logp: jax.Array,
  rollout_logp: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  low: ranges.NonNegative = 0.5,
  high: ranges.Positive = 2.0,
) -> jax.Array:
  """clip(rho of the token) times clip(geometric mean of the sequence's).

  A survey describes it for asynchronous training; no publication was found, so
  the form is ours. rho enters twice: the product is no unbiased weight.
  """
  token = truncated(old_logp, rollout_logp, low=low, high=high)
  mean = _rho(levels.mean(old_logp - rollout_logp, seq, mask))
  return token * jnp.clip(mean, low, high)


def drop_stale(
  old_logp: jax.Array,
  rollout_logp: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  kappa: ranges.NonNegative,
) -> jax.Array:
  """1 in sequences whose mean log rho is at most kappa in size, otherwise 0.

  A survey gives this for TOPR, which drops nothing: see `weights.tapered`.
  """
  mean = levels.mean(old_logp - rollout_logp, seq, mask)
  return _keep(jnp.abs(mean) <= kappa, mean)


def sequence_mask(
  logp: jax.Array,
  old_logp: jax.Array,
  advantage: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  delta: ranges.Finite = 0.5,
) -> jax.Array:
  """0 in bad sequences that the policy has left behind, otherwise 1.

  Off-policy sequence masking, DeepSeek-V3.2, arXiv:2512.02556: where the
  advantage is negative and the mean of old_logp - logp is over delta. There the
  old policy is the sampler: read rollout_logp as old_logp. The paper gives no
  delta; 0.5 is that of a public trainer.
  """
  left = levels.mean(old_logp - logp, seq, mask)
  return _keep((advantage >= 0) | (left <= delta), left)


def entropy_trust(
  logp: jax.Array,
  rollout_logp: jax.Array,
  rollout_entropy: jax.Array,
  *,
  tau: ranges.Positive = 1.0,
  eps: ranges.Positive = 0.01,
) -> jax.Array:
  """1 where (logp - rollout_logp)^2 / (rollout_entropy + eps) <= tau, else 0.

  The entropy-scaled trust region, arXiv:2607.22186: where the behavior was
  sure, a small change of a log-probability is much. The entropy is that of the
  behavior, recorded when it sampled. tau is not public; 1.0 is ours.
  """
  square = jnp.square(logp - rollout_logp)
  return _keep(square <= tau * (rollout_entropy + eps), square)


def moved_share(
  logp: jax.Array, old_logp: jax.Array, mask: jax.Array, seq: levels.Level
) -> jax.Array:
  """Each token's share of how far its sequence has moved, 1 on average.

  |logp - old_logp| over its mean in the sequence, which spreads a sequence's
  advantage by token and keeps its sum. A survey describes GSPO this way, whose
  publication has `ratios.sequence`; the form is ours. Where nothing has moved
  it is 1.
  """
  moved = jnp.abs(jax.lax.stop_gradient(logp - old_logp)) + 1e-8
  return moved / jnp.where(mask, levels.mean(moved, seq, mask), 1)


# Those that weigh by rho, and are not for a ratio that counts it already.
WEIGH_BY_RHO = frozenset(
  {
    importance,
    truncated,
    truncated_sequence,
    masked,
    masked_by_product,
    masked_by_mean,
    masked_by_largest,
    self_normalized,
    self_normalized_sequence,
    two_level,
  }
)
