"""What a token counts where not the policy's words alone are imitated.

Kernels give the column `importance` [B, T], at least 0, for
`aggregations.weighted`.
"""

import jax
import jax.numpy as jnp

from arl import ranges


def with_observations(
  observed: jax.Array, *, observation_coef: ranges.NonNegative
) -> jax.Array:
  """1 where the policy spoke, the coefficient where its environment did."""
  return jnp.where(observed, jnp.float32(observation_coef), jnp.float32(1))
