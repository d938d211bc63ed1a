"""One update: microbatch gradients added up, then the optimizer, once.

The number of microbatches is data, not shape: rows without a token to train on
come last and are never computed, and nothing is compiled anew when a batch is
fuller or emptier than the one before.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from arl import columns as columns_lib
from arl import types
from arl.rollout import decoding
from arl.train import forward as forward_lib
from arl.train import optimizers, partition, prefixes, sharding
from arl.train import state as state_lib

Clip = Callable[[Any, types.Columns], tuple[Any, dict]]
_FORWARDED = columns_lib.filled_by(columns_lib.POLICY)


class Step(NamedTuple):
  """One update, in two programs that are compiled once each.

  The first gives a gradient that agrees with the sampler to the last bit where
  `decoding.options` does that; sums over all parameters would take ten times as
  long under them, so the optimizer is a program of its own.

  Attributes:
    gradient: (params, columns, credits, taught) -> Found.
    apply: (state, columns, Found) -> (state, metrics); donates the state.
  """

  gradient: Any
  apply: Any

  def __call__(
    self, state: state_lib.TrainState, columns: Any, credits: Any, **taught: Any
  ) -> tuple[state_lib.TrainState, dict]:
    """The state after the update, and its metrics; donates the state."""
    found = self.gradient(state.params, columns, credits, taught)
    return self.apply(state, columns, found)

  def _cache_size(self) -> int:
    """How many times it was compiled."""
    return max(part._cache_size() for part in self)


class Found(NamedTuple):
  """What the loss says of an update's parameters.

  Attributes:
    metrics: of the objective.
    grads: of the parameters.
    weighs: bool scalar, whether a token weighs something in a term.
  """

  metrics: dict
  grads: Any
  weighs: jax.Array


def live_microbatches(mask: jax.Array, microbatch: int) -> jax.Array:
  """How many leading microbatches hold a token on the mask; int32 scalar."""
  parts = jnp.any(mask.reshape(-1, microbatch * mask.shape[1]), axis=1)
  index = jnp.arange(1, parts.size + 1, dtype=jnp.int32)
  return jnp.max(jnp.where(parts, index, 0))


def make_train_step(
  forward: forward_lib.Forward,
  method: types.Method,
  tx: optax.GradientTransformation,
  *,
  microbatch: int,
  mesh: Mesh,
  rules: partition.Rules = partition.DECODER,
  clip: Clip | None = None,
) -> Step:
  """The update as (state, columns, credits) -> (state, metrics), jitted.

  The parameters of a teacher that `forward` compares with come by keyword, as
  `taught`.

  Args:
    forward: makes the policy's columns.
    method: the objective.
    tx: the optimizer; it sees the gradient of the whole update.
    microbatch: rows a gradient is taken of at a time; divides the rows.
    mesh: where the arrays live.
    rules: of the parameters on it.
    clip: (params, columns) -> (params, metrics), what becomes of the parameters
      after the optimizer; None for nothing.

  Returns:
    What donates the state. With a non-finite loss, gradient or change of the
    parameters, or without a token that weighs something in a term, parameters
    and optimizer stay as they were.
  """
  gradient = make_gradient(forward, method, microbatch, mesh, rules)
  apply = make_apply(tx, mesh, rules, clip)
  return Step(
    jax.jit(gradient, compiler_options=decoding.options()),
    jax.jit(apply, donate_argnums=0),
  )


def make_gradient(
  forward: forward_lib.Forward,
  method: types.Method,
  microbatch: int,
  mesh: Mesh,
  rules: partition.Rules,
) -> Callable[..., Found]:
  """Step.gradient, not yet jitted."""
  want = frozenset({'logp'}) | (method.needs & _FORWARDED)

  def loss(params, taught, columns, credits, weights):
    made = forward(params, columns, want, **taught)
    columns = {**prefixes.of_rows(columns), **made}
    return method.loss(columns, credits, weights)

  gradient = jax.value_and_grad(loss, has_aux=True)

  def accumulate(params, columns, credits, taught):
    weights = method.weigh(prefixes.of_rows(columns), credits)
    part = sharding.microbatches((columns, credits, weights), microbatch, mesh)

    def one(i):
      (_, metrics), grads = gradient(params, taught, *part(i))
      return metrics, grads

    def nothing(_):
      shapes = jax.eval_shape(one, 0)
      return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

    live = live_microbatches(columns['mask'], microbatch)
    if microbatch == len(columns['mask']):  # no sum, no memory for one
      made = jax.lax.cond(live > 0, one, nothing, 0)
    else:
      add = lambda i, total: jax.tree.map(jnp.add, total, one(i))
      made = jax.lax.fori_loop(0, live, add, nothing(0))
    metrics, grads = made
    of_terms = [w for name, w in weights.items() if name != 'metrics']
    weighs = jnp.any(jnp.stack([jnp.any(w != 0) for w in of_terms]))
    return Found(metrics, sharding.keep_params(grads, mesh, rules), weighs)

  return accumulate


def make_apply(
  tx: optax.GradientTransformation,
  mesh: Mesh,
  rules: partition.Rules,
  clip: Clip | None,
) -> Callable[..., tuple[state_lib.TrainState, dict]]:
  """Step.apply, not yet jitted."""

  def apply(state, columns, found):
    metrics, grads, weighs = found
    norm = optax.tree.norm(grads)
    usable = jnp.isfinite(metrics['loss/total']) & jnp.isfinite(norm)
    finite, move = _looked_at(tx, state, grads, usable, weighs)
    applies = finite & weighs
    # In a branch, what was in its place is not needed beside what replaces it.
    params, opt_state = jax.lax.cond(
      applies, move, lambda: (state.params, state.opt_state)
    )
    if clip:
      clipped, seen = clip(params, columns)
      choose = lambda x, y: jnp.where(applies, x, y)
      params = jax.tree.map(choose, clipped, params)
      metrics = {**metrics, **seen}
    nonfinite = 1 - finite.astype(jnp.int32)
    state = state._replace(
      params=params,
      opt_state=opt_state,
      updates=state.updates + applies.astype(jnp.int32),
      skipped=jnp.where(applies, 0, state.skipped + nonfinite),
    )
    metrics = {
      **metrics,
      'train/grad_norm': norm,
      'train/nonfinite': nonfinite,
    }
    return sharding.keep_params(state, mesh, rules), metrics

  return apply


def _looked_at(
  tx: optax.GradientTransformation,
  state: state_lib.TrainState,
  grads: Any,
  usable: jax.Array,
  weighs: jax.Array,
) -> tuple[jax.Array, Callable[[], tuple[Any, Any]]]:
  """Whether the update is finite, and () -> parameters and moments after it.

  The changes are made twice, for the look and for the move, rather than kept
  beside the parameters, unless products of matrices make them.
  """

  def update(grads):
    with jax.numpy_dtype_promotion('standard'):  # optax counts on it
      return tx.update(grads, state.opt_state, state.params)

  add = functools.partial(optax.apply_updates, state.params)
  is_finite = lambda changes: jnp.isfinite(optax.tree.norm(changes))
  if not optimizers.multiplies(update, grads):
    look = lambda grads: is_finite(update(grads)[0])
    finite = jax.lax.cond(usable & weighs, look, lambda _: usable, grads)

    def move():
      changes, opt_state = update(grads)
      return add(changes), opt_state

    return finite, move
  changes = jax.lax.cond(
    usable & weighs,
    lambda grads: update(grads)[0],
    lambda grads: jax.tree.map(jnp.zeros_like, grads),
    grads,
  )
  return usable & is_finite(changes), lambda: (add(changes), update(grads)[1])
