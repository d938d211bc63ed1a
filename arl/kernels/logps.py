"""Log-probs of tokens that a model rules out."""

import jax
import jax.numpy as jnp

LOWEST = -1e4  # stands for a log-prob of -inf


def finite(logp: jax.Array) -> jax.Array:
  """Log-probs, at least LOWEST; below it there is no gradient."""
  return jnp.where(logp < LOWEST, LOWEST, logp)
