"""What training carries from one update to the next."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax


class TrainState(NamedTuple):
  """Everything an update reads and changes; a checkpoint is this and a step.

  Attributes:
    params: of the model, a value head included where the method needs one.
    opt_state: of the optimizer.
    updates: int32, updates applied; one with a non-finite loss, gradient or
      change, or without a token to train on, is not applied and does not count.
    skipped: int32, non-finite updates in a row; one without a token is none.
  """

  params: Any
  opt_state: Any
  updates: jax.Array
  skipped: jax.Array


def create(params: Any, tx: optax.GradientTransformation) -> TrainState:
  """A fresh state."""
  return TrainState(params, tx.init(params), jnp.int32(0), jnp.int32(0))
