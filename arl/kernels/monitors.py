"""What to watch: columns [B, T] to columns whose token mean is a metric."""

import jax
import jax.numpy as jnp

from arl.kernels import divergences, surrogates, weights


def ratio(log_ratio: jax.Array) -> jax.Array:
  """The importance ratio; its mean is 1 on policy."""
  return surrogates.ratio(log_ratio)


def policy_kl(log_ratio: jax.Array) -> jax.Array:
  """KL from the anchor to the policy: r - 1 - log r, never negative.

  The tokens come from the anchor, so this is k3 with the roles exchanged.
  """
  return divergences.k3(jnp.zeros_like(log_ratio), log_ratio)


def weight_capped(log_ratio: jax.Array, *, high: float) -> jax.Array:
  """1 where an importance weight is cut to 1 + high."""
  return jnp.where(surrogates.ratio(log_ratio) > 1 + high, 1.0, 0.0)


def clip_fraction(
  log_ratio: jax.Array, advantage: jax.Array, objective: jax.Array
) -> jax.Array:
  """1 where a clipping surrogate binds: it differs from ratio * advantage."""
  free = surrogates.importance(log_ratio, advantage)
  return jnp.where(objective != free, 1.0, 0.0)


# Surrogates that are ratio * advantage where they do not clip.
CLIPPED = frozenset({surrogates.clip, surrogates.dual_clip})
# Surrogates with a truncated weight -> the monitor that takes their bounds.
CAPPED = {weights.clipped_weight: weight_capped}
