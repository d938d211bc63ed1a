"""What a token weighs where not all that is imitated counts the same.

Kernels give the column `weights` [B, T], which sums to 1, or to 0 if all of it
is 0.
"""

import jax
import jax.numpy as jnp

from arl import ranges
from arl.kernels import aggregations


def with_observations(
  mask: jax.Array, observed: jax.Array, *, observation_coef: ranges.NonNegative
) -> jax.Array:
  """By 1 where the policy spoke, by the coefficient where its environment did.

  ActObs, arXiv:2609.20715.
  """
  coef = jnp.float32(observation_coef)
  importance = jnp.where(observed, coef, jnp.float32(1))
  return aggregations.weighted(mask, importance)


def by_example(mask: jax.Array, example_weight: jax.Array) -> jax.Array:
  """By the weight of the example that the token is of."""
  return aggregations.weighted(mask, jax.lax.stop_gradient(example_weight))
