"""What to watch: columns [B, T] to columns whose token mean is a metric."""

import jax
import jax.numpy as jnp

from arl import levels, ranges, types
from arl.kernels import divergences, surrogates, weights


def ratio(log_ratio: jax.Array) -> jax.Array:
  """The importance ratio; its mean is 1 on policy."""
  return surrogates.ratio(log_ratio)


def policy_kl(log_ratio: jax.Array) -> jax.Array:
  """KL from the anchor to the policy: r - 1 - log r, never negative.

  The tokens come from the anchor, so this is k3 with the roles exchanged.
  """
  return divergences.k3(jnp.zeros_like(log_ratio), log_ratio)


def weight_capped(log_ratio: jax.Array, *, high: ranges.Positive) -> jax.Array:
  """1 where an importance weight is cut to 1 + high."""
  return _share(surrogates.ratio(log_ratio) > 1 + high)


def weight_dropped(
  log_ratio: jax.Array, *, low: ranges.Fraction, high: ranges.Positive
) -> jax.Array:
  """1 where a ratio is outside (1 - low, 1 + high) and its token is dropped."""
  r = surrogates.ratio(log_ratio)
  return _share((r <= 1 - low) | (r >= 1 + high))


def rest_capped(
  logp: jax.Array, old_logp: jax.Array, *, cap: ranges.OverOne
) -> jax.Array:
  """1 where the weight of `weights.bellman` is cut to `cap`."""
  return _share(weights.rest_ratio(logp, old_logp) > cap)


def variation_dropped(
  logp: jax.Array,
  rollout_logp: jax.Array,
  advantage: jax.Array,
  *,
  low: ranges.Fraction,
  high: ranges.Fraction,
) -> jax.Array:
  """1 where `weights.total_variation_masked` drops a token."""
  near = weights.near_by_total_variation(
    logp, rollout_logp, advantage, low=low, high=high
  )
  return _share(~near)


def binary_kl_dropped(
  logp: jax.Array,
  rollout_logp: jax.Array,
  advantage: jax.Array,
  *,
  low: ranges.Positive,
  high: ranges.Positive,
) -> jax.Array:
  """1 where `weights.binary_kl_masked` drops a token."""
  near = weights.near_by_binary_kl(
    logp, rollout_logp, advantage, low=low, high=high
  )
  return _share(~near)


def bellman_residual(
  logp: jax.Array,
  old_logp: jax.Array,
  advantage: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  eta: ranges.Positive = 1.0,
) -> jax.Array:
  """What the Bellman equation of a sequence lacks; 0 at BPO's optimum.

  eta * advantage less, of every token, its log-ratio and the KL from the old
  policy, here `divergences.binary_kl` (arXiv:2609.15987). The advantage is R -
  mean of the group, and eta one over the temperature.
  """
  kl = divergences.binary_kl(logp, old_logp)
  return eta * advantage - levels.total(logp - old_logp + kl, seq, mask)


def clip_fraction(
  log_ratio: jax.Array, advantage: jax.Array, objective: jax.Array
) -> jax.Array:
  """1 where a clipping surrogate binds: it differs from ratio * advantage."""
  free = surrogates.importance(log_ratio, advantage)
  return _share(objective != free)


def ranked(ranked: jax.Array) -> jax.Array:
  """1 where a search had its actions ranked."""
  return _share(ranked)


def _share(where):
  return jnp.where(where, 1.0, 0.0)


# Surrogates that are ratio * advantage where they do not clip.
CLIPPED: frozenset[types.Kernel] = frozenset(
  {
    surrogates.clip,
    surrogates.clip_by_turn,
    surrogates.dual_clip,
    surrogates.two_sided,
  }
)
# Surrogates that cut a weight or drop a token -> the monitor that takes their
# bounds.
CAPPED: dict[types.Kernel, types.Kernel] = {
  weights.bellman: rest_capped,
  weights.binary_kl_masked: binary_kl_dropped,
  weights.clipped_weight: weight_capped,
  weights.double_sided: weight_dropped,
  weights.total_variation_masked: variation_dropped,
}
