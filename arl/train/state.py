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
    behind: parameters at the start of the last batches, the oldest first, where
      rollouts lag so many batches behind; empty where they do not.
    average: of the parameters over batches, where one teaches; else empty.
  """

  params: Any
  opt_state: Any
  updates: jax.Array
  skipped: jax.Array
  behind: tuple[Any, ...] = ()
  average: Any = ()


def create(
  params: Any,
  tx: optax.GradientTransformation,
  lag: int = 0,
  *,
  averaged: bool = False,
) -> TrainState:
  """A fresh state, whose rollouts lag so many batches behind.

  Args:
    params: of the model.
    tx: the optimizer.
    lag: in batches.
    averaged: whether it keeps an average of the parameters.
  """
  copy = lambda: jax.tree.map(jnp.copy, params)
  behind = tuple(copy() for _ in range(lag))
  count = jnp.int32(0), jnp.int32(0)  # two, since updates donate the state
  average = copy() if averaged else ()
  return TrainState(params, tx.init(params), *count, behind, average)


def acting(now: TrainState) -> Any:
  """The parameters that sample the next batch."""
  return now.behind[0] if now.behind else now.params


def begin_batch(now: TrainState) -> TrainState:
  """The state once a batch was sampled, before it is trained on.

  What sampled it is forgotten; the present parameters wait for their turn.
  """
  if not now.behind:
    return now
  kept = jax.tree.map(jnp.copy, now.params)  # updates donate their own
  return now._replace(behind=(*now.behind[1:], kept))


def end_batch(now: TrainState, share: float) -> TrainState:
  """The state once a batch was trained on.

  Args:
    now: the state.
    share: of the present parameters in their average, if there is one.
  """
  if not now.average:
    return now
  return now._replace(average=_mixed(now.average, now.params, share))


@jax.jit
def _mixed(average: Any, params: Any, share: float) -> Any:
  """(1 - share) * average + share * params, in their dtype."""
  mix = lambda old, new: (old + share * (new - old)).astype(old.dtype)
  return jax.tree.map(mix, average, params)
