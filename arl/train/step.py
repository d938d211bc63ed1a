"""One update: microbatch gradients added up, then the optimizer, once.

The number of microbatches is data, not shape: rows without a token to train on
come last and are never computed, and nothing is compiled anew when a batch is
fuller or emptier than the one before.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from arl import columns as columns_lib
from arl import types
from arl.rollout import decoding
from arl.train import forward as forward_lib
from arl.train import partition, prefixes, sharding
from arl.train import state as state_lib

Step = Callable[..., tuple[state_lib.TrainState, dict]]
Clip = Callable[[Any, types.Columns], tuple[Any, dict]]
_FORWARDED = columns_lib.filled_by(columns_lib.POLICY)


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
  """The update as a jitted (state, columns, credits) -> (state, metrics).

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
    A function that donates the state. With a non-finite loss, gradient or
    change of the parameters, or without a token that weighs something in a
    term, parameters and optimizer stay as they were.
  """
  want = frozenset({'logp'}) | (method.needs & _FORWARDED)

  def loss(params, taught, columns, credits, weights):
    made = forward(params, columns, want, **taught)
    columns = {**prefixes.of_rows(columns), **made}
    return method.loss(columns, credits, weights)

  gradient = jax.value_and_grad(loss, has_aux=True)

  def accumulate(params, taught, columns, credits):
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
    of_terms = [w for name, w in weights.items() if name != 'metrics']
    return *made, jnp.any(jnp.stack([jnp.any(w != 0) for w in of_terms]))

  def step(state, columns, credits, **taught):
    metrics, grads, weighs = accumulate(state.params, taught, columns, credits)
    norm = optax.tree.norm(grads)
    usable = jnp.isfinite(metrics['loss/total']) & jnp.isfinite(norm)

    def update(grads):
      with jax.numpy_dtype_promotion('standard'):  # optax counts on it
        return tx.update(grads, state.opt_state, state.params)

    # The changes decide whether the optimizer moves. Were they made along with
    # its moments, both would wait for the decision beside what they replace; so
    # the moments are made again after it, in place.
    nothing = lambda grads: jax.tree.map(jnp.zeros_like, grads)
    changes = jax.lax.cond(
      usable & weighs, lambda grads: update(grads)[0], nothing, grads
    )
    finite = usable & jnp.isfinite(optax.tree.norm(changes))
    _, opt_state = update(grads)
    nonfinite = 1 - finite.astype(jnp.int32)
    params = optax.apply_updates(state.params, changes)
    if clip:
      params, seen = clip(params, columns)
      metrics = {**metrics, **seen}
    moved = state._replace(
      params=params,
      opt_state=opt_state,
      updates=state.updates + 1,
      skipped=jnp.zeros_like(state.skipped),
    )
    stayed = state._replace(skipped=state.skipped + nonfinite)
    apply = finite & weighs
    state = jax.tree.map(lambda x, y: jnp.where(apply, x, y), moved, stayed)
    state = sharding.keep_params(state, mesh, rules)
    metrics = {
      **metrics,
      'train/grad_norm': norm,
      'train/nonfinite': nonfinite,
    }
    return state, metrics

  return jax.jit(step, donate_argnums=0, compiler_options=decoding.options())
