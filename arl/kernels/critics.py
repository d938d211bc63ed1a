"""Losses of a value function, a token."""

import jax
import jax.numpy as jnp


def value_clip(
  value: jax.Array, old_value: jax.Array, returns: jax.Array, *, clip: float
) -> jax.Array:
  """Half the larger of the free and the clipped squared error.

  The value may move by `clip` from where it was when the batch began (the PPO
  code of arXiv:1707.06347; public trainers differ in the factor 1/2).
  """
  near = old_value + jnp.clip(value - old_value, -clip, clip)
  free, bounded = jnp.square(value - returns), jnp.square(near - returns)
  return jnp.where(free >= bounded, free, bounded) / 2
