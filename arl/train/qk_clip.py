"""QK-clip: bounds the attention logits by scaling weights, after an update.

MuonClip (2507.20534) scales, for each head whose largest logit S is over tau,
its query and key weights by sqrt(gamma), gamma = tau / S. Two things are ours.

Grouped-query attention is not in the paper. Here each query head is scaled by
the square root of its own gamma, and the key head that a group shares by that
of the smallest gamma in the group. As sqrt(gamma gamma_min) <= gamma, no head
of the group stays over tau, and the one with the largest logit reaches it; the
others lose more than they had to, since scaling the key once reaches all. A
group without a head over tau keeps its bits.

The paper takes S from the forward pass of the update; here it is measured on
the same batch with the weights after the update, which are the ones scaled. All
layers are measured before any is scaled: a scaled layer changes what the layers
above it see, so that theirs may be over tau until the next update.
"""

import math

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from arl.models import functional
from arl.train import optimizers, sharding, step


def scales(
  maxima: jax.Array, kv_heads: int, tau: float
) -> tuple[jax.Array, jax.Array]:
  """The factors of one layer's query heads [H] and key heads [K].

  Args:
    maxima: [H], the largest logit of each query head. One that is not finite
      counts as under tau: such a head is beyond scaling.
    kv_heads: K; query heads that share a key head are neighbors.
    tau: the bound, positive.
  """
  over = (maxima > tau) & jnp.isfinite(maxima)
  gamma = jnp.where(over, tau / jnp.where(over, maxima, 1), 1)
  smallest = gamma.reshape(kv_heads, -1).min(1)
  return jnp.sqrt(gamma), jnp.sqrt(smallest)


def scaled(
  params: functional.Params, maxima: jax.Array, tau: float
) -> functional.Params:
  """The parameters with the heads over tau scaled, biases included.

  Args:
    params: of a model without norms of queries and keys.
    maxima: [L, H], what `functional.Model.attention_maxima` measured.
    tau: the bound, positive.
  """
  layers = dict(params['layers'])
  for name, layer in layers.items():
    attention = layer['attention']
    heads = maxima[int(name)]
    dim = attention['query']['kernel'].shape[1] // heads.size
    kv_heads = attention['key']['kernel'].shape[1] // dim
    factors = scales(heads, kv_heads, tau)
    scaled_heads = {
      part: _columns(attention[part], jnp.repeat(factor, dim))
      for part, factor in zip(('query', 'key'), factors, strict=True)
    }
    layers[name] = {**layer, 'attention': {**attention, **scaled_heads}}
  return {**params, 'layers': layers}


def make(
  model: functional.Model,
  *,
  tau: float,
  frozen: str,
  microbatch: int,
  mesh: Mesh,
) -> step.Clip:
  """The clip as (params, columns) -> (params, metrics).

  The metric `train/attention_max` is the largest logit of all heads before it
  is clipped. Microbatches without a token to train on are not measured.

  Args:
    model: the policy.
    tau: the bound, positive; 100 in the paper.
    frozen: a pattern for `optimizers.matching`, of parameters that are never
      scaled; '' for none.
    microbatch: rows measured at a time.
    mesh: where the arrays live.

  Raises:
    ValueError: tau is no positive number, or the model normalizes queries and
      keys.
  """
  _check(model, tau)

  def measure(params, columns):
    part = sharding.microbatches(columns, microbatch, mesh)

    def larger(i, best):
      now = part(i)
      seen = (now[name] for name in ('tokens', 'positions', 'segments'))
      return jnp.maximum(best, model.attention_maxima(params, *seen))

    shape = jax.eval_shape(lambda: larger(0, -jnp.inf)).shape
    live = step.live_microbatches(columns['mask'], microbatch)
    return jax.lax.fori_loop(0, live, larger, jnp.full(shape, -jnp.inf))

  def clip(params, columns):
    maxima = measure(params, columns)
    made = scaled(params, maxima, tau)
    if frozen:
      fixed = optimizers.matching(params, frozen)
      made = jax.tree.map(
        lambda old, new, keep: old if keep else new, params, made, fixed
      )
    return made, {'train/attention_max': maxima.max()}

  return clip


def _columns(linear: dict[str, jax.Array], factor: jax.Array) -> dict:
  """The weights [D, N], and bias [N] if there is one, times a factor [N]."""
  return {
    name: x * (factor[None] if x.ndim == 2 else factor)
    for name, x in linear.items()
  }


def _check(model: functional.Model, tau: float) -> None:
  if not 0 < tau < math.inf:
    raise ValueError(
      f'qk_clip: tau is {tau}; it must be a positive number, such as 100.'
    )
  params = jax.eval_shape(model.init, jax.random.key(0))
  if 'query_norm' in params['layers']['0']['attention']:
    raise ValueError(
      'qk_clip: this model normalizes queries and keys, so that scaling their'
      ' weights changes no logit; set it to 0.'
    )
