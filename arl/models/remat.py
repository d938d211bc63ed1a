"""What the backward pass of a layer finds saved, and what it computes again."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import ad_checkpoint

from arl.models import blocks
from arl.models import experts as experts_lib

MIDDLE, PRODUCTS = 'middle', 'products'  # names of residuals
# Computed again, a router could choose again: its choice is always saved.
SAVED = {
  'products': (*blocks.KEPT, MIDDLE, PRODUCTS),
  'attention': blocks.KEPT,
  'layer': (),
}
KINDS = 'none', *SAVED


def name(x: jax.Array, residual: str) -> jax.Array:
  """x, to be saved where a kind names the residual."""
  return ad_checkpoint.checkpoint_name(x, residual)


def again(run: Callable, kind: str, live: jax.Array | None) -> Callable:
  """(params, x) -> what `run` makes of them, with less saved for its gradient.

  XLA for CPUs finds what is computed twice, barriers notwithstanding, and keeps
  it from the first time. There the second time stands in a branch, which it
  does not look into.

  Args:
    run: (params, x) -> (x, what has no gradient).
    kind: one of SAVED.
    live: bool scalar, whether the gradient is anything but 0; the same on all
      devices. None if that cannot be told, and there is no branch.
  """
  names = *SAVED[kind], experts_lib.CHOSEN
  policy = jax.checkpoint_policies.save_only_these_names(*names)
  kept = jax.checkpoint(run, policy=policy)
  if live is None:
    return kept

  @jax.custom_vjp
  def call(params, x):
    return kept(params, x)

  def forward(params, x):
    made, pull, other = jax.vjp(kept, params, x, has_aux=True)
    return (made, other), pull

  def backward(pull, cotangents):
    return jax.lax.platform_dependent(
      pull, cotangents[0], cpu=_if(live), default=lambda pull, x: pull(x)
    )

  call.defvjp(forward, backward)
  return call


def _if(live: jax.Array) -> Callable:
  def branch(pull: Callable, cotangent: jax.Array) -> Any:
    shapes = jax.eval_shape(pull, cotangent)
    nothing = lambda *_: jax.tree.map(
      lambda x: jnp.zeros(x.shape, x.dtype), shapes
    )
    return jax.lax.cond(live, lambda pull, x: pull(x), nothing, pull, cotangent)

  return branch
