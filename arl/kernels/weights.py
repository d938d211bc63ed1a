"""Weighted likelihoods: surrogates whose gradient is a weight times that of
logp, and those that let go of tokens by how far the policy has moved.

A kernel reads columns [B, T] and gives the column `objective` [B, T]. Unlike
those in `surrogates` these do not clip the objective: they bound the weight of
a token, or drop the token. On policy each has the gradient advantage * logp.
"""

import jax
import jax.numpy as jnp

from arl import ranges
from arl.kernels import divergences, surrogates

_SMALLEST_REST = 1e-6
_ROUNDING = 1e-4


def clipped_weight(
  log_ratio: jax.Array,
  logp: jax.Array,
  advantage: jax.Array,
  *,
  high: ranges.Positive,
  low: ranges.Fraction = 1.0,
) -> jax.Array:
  """sg[clip(r, 1 - low, 1 + high)] * advantage * logp.

  CISPO (MiniMax-M1, arXiv:2506.13585, eq. 4): the importance weight is
  truncated and carries no gradient, so no token loses its gradient to clipping.
  low = 1 leaves the lower side open.
  """
  weight = jnp.clip(surrogates.ratio(log_ratio), 1 - low, 1 + high)
  return jax.lax.stop_gradient(weight) * advantage * logp


def double_sided(
  log_ratio: jax.Array,
  logp: jax.Array,
  advantage: jax.Array,
  *,
  low: ranges.Fraction,
  high: ranges.Positive,
) -> jax.Array:
  """sg[r] * advantage * logp where 1 - low < r < 1 + high, otherwise 0.

  Double-sided importance sampling (GLM-5, arXiv:2602.15763, 4.1.2). Both sides
  drop a token whatever the sign of its advantage, where PPO drops one. The
  ratio is to the behavior: bind the ratio to `rollout_logp`.
  """
  r = surrogates.ratio(log_ratio)
  weight = jnp.where((r > 1 - low) & (r < 1 + high), r, 0)
  return jax.lax.stop_gradient(weight) * advantage * logp


def soft_gate(
  log_ratio: jax.Array,
  advantage: jax.Array,
  *,
  tau_positive: ranges.Positive = 1.0,
  tau_negative: ranges.Positive = 1.05,
) -> jax.Array:
  """f(r) * advantage with f(r) = 4 / tau * sigmoid(tau * (r - 1)).

  SAPO, arXiv:2511.20347: the gradient fades out on both sides of 1 instead of
  ending at a bound; f'(1) = 1, while the value f(1) = 2 / tau means nothing. A
  negative advantage has its own, sharper tau.
  """
  tau = jnp.where(advantage > 0, tau_positive, tau_negative)
  tau = tau.astype(log_ratio.dtype)
  gate = jax.nn.sigmoid(tau * (surrogates.ratio(log_ratio) - 1))
  return 4 / tau * gate * advantage


def tapered(
  log_ratio: jax.Array,
  logp: jax.Array,
  advantage: jax.Array,
  *,
  low_positive: ranges.NonNegative = 1.0,
  high_positive: ranges.Positive = 1.0,
  low_negative: ranges.NonNegative = 0.0,
  high_negative: ranges.Positive = 1.0,
) -> jax.Array:
  """sg[clip(r, low, high)] * advantage * logp, limits by the advantage's sign.

  TOPR, arXiv:2503.14286. With the canonical limits what is good keeps its whole
  weight however old it is, and what is bad fades out as the policy leaves it
  behind. The ratio is of whole sequences to the policy that made the data: use
  `ratios.trajectory`. An advantage of 0 counts as good; it is 0 either way.
  """
  good = advantage >= 0
  low = jnp.where(good, low_positive, low_negative).astype(log_ratio.dtype)
  high = jnp.where(good, high_positive, high_negative).astype(log_ratio.dtype)
  weight = jnp.clip(surrogates.ratio(log_ratio), low, high)
  return jax.lax.stop_gradient(weight) * advantage * logp


def bellman(
  logp: jax.Array,
  old_logp: jax.Array,
  advantage: jax.Array,
  *,
  cap: ranges.OverOne,
) -> jax.Array:
  """sg[min((1 - mu) / (1 - pi), cap)] * advantage * logp.

  BPO, arXiv:2609.15987: the residual of a Bellman equation under policy mirror
  descent, its vocabulary reduced to the token and the rest. The weight comes
  from the probabilities and is no importance ratio: a token that became likely
  is pushed further, not less. There is no official code: ours are the cap, for
  which 2.0 is a choice, and the 1e-6 added to both rests.
  """
  weight = jnp.minimum(rest_ratio(logp, old_logp), cap)
  return jax.lax.stop_gradient(weight) * advantage * logp


def rest_ratio(logp: jax.Array, old_logp: jax.Array) -> jax.Array:
  """(1 - mu) / (1 - pi): how the probability of all other tokens shrank."""
  rest, old_rest = (
    jnp.maximum(-jnp.expm1(x), 0) + _SMALLEST_REST for x in (logp, old_logp)
  )
  return old_rest / rest


def total_variation_masked(
  logp: jax.Array,
  rollout_logp: jax.Array,
  advantage: jax.Array,
  *,
  low: ranges.Fraction,
  high: ranges.Fraction,
) -> jax.Array:
  """r * advantage where the probability has not moved too far, otherwise 0.

  DPPO with binary total variation, arXiv:2602.04879. `low` and `high` bound
  what the probability of the token may lose and gain; a ratio would forbid a
  rare token what it lets a common one do. r is to `rollout_logp`.
  """
  keep = near_by_total_variation(
    logp, rollout_logp, advantage, low=low, high=high
  )
  objective = surrogates.importance(logp - rollout_logp, advantage)
  return jnp.where(keep, objective, 0)


def binary_kl_masked(
  logp: jax.Array,
  rollout_logp: jax.Array,
  advantage: jax.Array,
  *,
  low: ranges.Positive,
  high: ranges.Positive,
) -> jax.Array:
  """r * advantage where the binary KL is small, otherwise 0.

  DPPO with binary KL, arXiv:2602.04879: as `total_variation_masked`, measured
  in nats by `divergences.binary_kl`.
  """
  keep = near_by_binary_kl(logp, rollout_logp, advantage, low=low, high=high)
  objective = surrogates.importance(logp - rollout_logp, advantage)
  return jnp.where(keep, objective, 0)


def near_by_total_variation(
  logp: jax.Array,
  rollout_logp: jax.Array,
  advantage: jax.Array,
  *,
  low: ranges.Fraction,
  high: ranges.Fraction,
) -> jax.Array:
  """True but where a step would go further away than `low` or `high`."""
  gain = jnp.exp(logp) - jnp.exp(rollout_logp)
  too_far = jnp.where(advantage > 0, gain > high, -gain > low)
  return ~too_far | (advantage == 0)


def near_by_binary_kl(
  logp: jax.Array,
  rollout_logp: jax.Array,
  advantage: jax.Array,
  *,
  low: ranges.Positive,
  high: ranges.Positive,
) -> jax.Array:
  """True but where a step would go further away than `low` or `high` nats.

  A behavior log-probability above 0 by more than rounding is none: there is no
  divergence from it, and a step away is not taken.
  """
  divergence = divergences.binary_kl(logp, rollout_logp)
  known = rollout_logp < _ROUNDING
  bound = jnp.where(advantage > 0, high, low).astype(logp.dtype)
  away = jnp.where(advantage > 0, logp > rollout_logp, logp < rollout_logp)
  return ~away | (known & (divergence <= bound)) | (advantage == 0)
