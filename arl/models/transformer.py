"""The decoder of the Llama, Qwen2, Qwen3 and Qwen3-MoE families.

Pre-norm residual layers of grouped-query attention with rotary positions and a
gated MLP, or a mixture of such. Modules here hold parameters and compute; the
rest of arl sees only the functions that `make` returns.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from arl.models import attention as attention_lib
from arl.models import blocks, cached, functional, lora, rope, sizes
from arl.models import experts as experts_lib
from arl.models import layout as layout_lib
from arl.models import remat as remat_lib

REMAT = remat_lib.KINDS
Pair = attention_lib.Pair


def make(
  size: sizes.Sizes,
  dtype: str = 'float32',
  remat: str = 'none',
  cache: str = '',
) -> functional.Model:
  """A decoder as pure functions.

  Args:
    size: its sizes.
    dtype: what it computes in. Norms, softmax, rotary tables and logits are
      float32 whatever it is; so are new parameters.
    remat: what is saved of a layer for the backward pass of `apply` beside its
      input, one of REMAT: 'none' to save all, 'products' for what products of
      matrices gave, 'attention' for what attention did, 'layer' for nothing.
    cache: what `extend` keeps, one of cached.KINDS; '' for what it computes in.

  Raises:
    ValueError: sizes that do not fit together, an unknown remat or cache.
  """
  _check(size, remat)
  cached.check(cache)
  kind = jnp.dtype(dtype)
  init, bind = functional.pure(lambda rngs: Decoder(size, kind, rngs))

  listed = (size.layers, size.mixture.chosen) if size.mixture else (0, 0)

  def traced(
    params, tokens, positions, segments, experts=None, paths=None, layout=None
  ):
    if experts is not None:
      _check_experts(experts, tokens, listed)
    return bind(params).apply(
      tokens, positions, segments, remat, experts, paths, layout
    )

  def apply(params, *seen, **given):
    return traced(params, *seen, **given)[0]

  def extend(params, tokens, positions, cache, layout=None):
    return bind(params).extend(tokens, positions, cache, layout)

  def attention_maxima(params, tokens, positions, segments):
    return bind(params).attention_maxima(tokens, positions, segments)

  def routes(params, tokens, positions, segments):
    return traced(params, tokens, positions, segments)[1]

  def empty(rows, slots):
    shape = rows, size.kv_heads, slots, size.head_dim
    pairs = tuple(cached.empty(*shape, kind, cache) for _ in range(size.layers))
    if not size.mixture:
      return pairs
    layers, chosen = listed
    return *pairs, jnp.zeros((rows, layers, slots, chosen), jnp.int32)

  def logits(params, hidden):
    return bind(params).logits(hidden)

  return functional.Model(
    init,
    apply,
    extend,
    attention_maxima,
    routes,
    traced,
    empty,
    logits,
    size.vocab,
    size.context,
    listed,
  )


class Decoder(nnx.Module):
  """Embedding, layers, final norm and head."""

  def __init__(self, size: sizes.Sizes, dtype: jnp.dtype, rngs: nnx.Rngs):
    table = functools.partial(
      nnx.Embed,
      size.vocab,
      size.width,
      dtype=dtype,
      embedding_init=jax.nn.initializers.normal(0.02),
      rngs=rngs,
    )
    self.embed = table()
    self.layers = nnx.List(
      [Layer(i, size, dtype, rngs) for i in range(size.layers)]
    )
    self.norm = attention_lib.Norm(size.width, size, dtype, rngs)
    self.head = None if size.tied else table()
    self.size, self.dtype = size, dtype

  def angles(self, positions):
    return rope.tables(self.size.rope, self.size.head_dim, positions)

  def apply(self, tokens, positions, segments, remat, experts, paths, layout):
    angles = self.angles(positions)
    mask: jax.Array | blocks.Causal
    if paths is not None:
      mask, store = attention_lib.along(paths, positions)
    elif layout and layout.splits_tokens:
      mask, store = attention_lib.across(segments, layout.tokens)
    else:
      mask, store = blocks.Causal(segments), attention_lib.by_head
    # Where each device sees but its part of the tokens it cannot tell.
    whole = not layout or not layout.splits_tokens
    live = jnp.any(segments != 0) if whole else None
    x = self._embedded(tokens.reshape(-1), layout)
    found = []
    for i, layer in enumerate(self.layers):
      given = None
      if experts is not None:
        given = experts[:, :, i].reshape(len(x), -1)

      graph, params = nnx.split(layer)

      def run(params, x, graph=graph, given=given):
        layer = nnx.merge(graph, params)
        x, _, chosen = layer(x, angles, mask, store, given, layout)
        return x, chosen

      if remat != 'none':
        run = remat_lib.again(run, remat, live)
      x, chosen = run(params, x)
      found.append(chosen)
    hidden = self.norm(x).reshape(*tokens.shape, -1)
    return hidden, self._listed(found, tokens.shape)

  def _embedded(self, tokens, layout):
    if layout and layout.splits_tokens:
      table = layout_lib.whole(layout, self.embed.embedding[...])
      return jnp.take(table.astype(self.dtype), tokens, axis=0)
    # Of the whole table, so that its gradient is summed in float32.
    states = self.embed.embedding[...][tokens].astype(self.dtype)
    return layout_lib.by_rows(layout, states) if layout else states

  def attention_maxima(self, tokens, positions, segments):
    angles, mask = self.angles(positions), attention_lib.causal(segments)
    x = self.embed(tokens.reshape(-1))
    found = []
    for layer in self.layers:
      found.append(
        layer.attention.maxima(layer.attention_norm(x), angles, mask)
      )
      x, _, _ = layer(x, angles, mask, attention_lib.by_head)
    return jnp.stack(found)

  def extend(self, tokens, positions, cache, layout):
    angles = self.angles(positions)
    x = self.embed(tokens.reshape(-1))
    new: list[Any] = []
    found = []
    for layer, kept in zip(self.layers, cache):
      x, kept, chosen = layer.extend(x, angles, positions, kept, layout)
      new.append(kept)
      found.append(chosen)
    if self.size.mixture:
      listed = self._listed(found, tokens.shape)
      new.append(cached.list_experts(cache[-1], positions, listed))
    return self.norm(x).reshape(*tokens.shape, -1), tuple(new)

  def _listed(self, found, shape):
    """What the layers chose, [B*N, K] or None, as [B, N, L, K]."""
    if not self.size.mixture:
      return jnp.zeros((*shape, 0, 0), jnp.int32)
    none = jnp.zeros((shape[0] * shape[1], self.size.mixture.chosen), jnp.int32)
    chosen = [none if one is None else one for one in found]
    return jnp.stack(chosen, 1).reshape(*shape, len(chosen), -1)

  def logits(self, hidden):
    table = (self.embed if self.head is None else self.head).embedding[...]
    return jax.lax.dot_general(
      hidden.astype(self.dtype),
      table.astype(self.dtype),
      (((hidden.ndim - 1,), (1,)), ((), ())),
      preferred_element_type=jnp.float32,
    )


class Layer(nnx.Module):
  """Attention and MLP or mixture, each added to the residual stream."""

  def __init__(
    self, index: int, size: sizes.Sizes, dtype: jnp.dtype, rngs: nnx.Rngs
  ):
    norm = lambda: attention_lib.Norm(size.width, size, dtype, rngs)
    self.attention_norm = norm()
    self.attention = attention_lib.Attention(size, dtype, rngs)
    self.mlp_norm = norm()
    mixture = size.mixture
    if mixture is None or index in mixture.dense:
      self.mlp: Any = Mlp(size, dtype, rngs)
    else:
      self.mlp = experts_lib.Mixture(size.width, mixture, dtype, rngs)

  def __call__(
    self,
    x: jax.Array,
    angles: Pair,
    mask: jax.Array | blocks.Causal,
    store: Callable,
    given: jax.Array | None = None,
    layout: layout_lib.Layout | None = None,
  ) -> tuple[jax.Array, Pair, jax.Array | None]:
    """Maps x [B*N, D] to the same, with what was found on the way.

    That is what `store` made of keys and values, and the experts [B*N, K] that
    the layer would choose, whatever was given; None where it has none.
    """
    mixed, pair = self.attention(self.attention_norm(x), angles, mask, store)
    x = remat_lib.name(x + mixed, remat_lib.MIDDLE)
    x, chosen = self._mlp(x, given, layout)
    return x, pair, chosen

  def extend(
    self,
    x: jax.Array,
    angles: Pair,
    positions: jax.Array,
    kept: cached.Kept,
    layout: layout_lib.Layout | None,
  ) -> tuple[jax.Array, cached.Kept, jax.Array | None]:
    """The same of new tokens, positions [B, N], after what is kept."""
    mixed, kept = self.attention.extend(
      self.attention_norm(x), angles, positions, kept
    )
    x, chosen = self._mlp(x + mixed, None, layout)
    return x, kept, chosen

  def _mlp(self, x, given, layout):
    if isinstance(self.mlp, Mlp):
      return x + self.mlp(self.mlp_norm(x)), None
    made, chosen = self.mlp(self.mlp_norm(x), given, layout)
    return x + made, chosen


class Mlp(nnx.Module):
  """down(silu(gate(x)) * up(x))."""

  def __init__(self, size: sizes.Sizes, dtype: jnp.dtype, rngs: nnx.Rngs):
    linear = functools.partial(
      lora.Linear, use_bias=False, dtype=dtype, rngs=rngs
    )
    self.gate = linear(size.width, size.mlp_width)
    self.up = linear(size.width, size.mlp_width)
    self.down = linear(size.mlp_width, size.width)

  def __call__(self, x):
    keep = lambda made: remat_lib.name(made, remat_lib.PRODUCTS)
    return self.down(jax.nn.silu(keep(self.gate(x))) * keep(self.up(x)))


def _check_experts(experts, tokens, listed) -> None:
  wanted = *tokens.shape, *listed
  if experts.shape != wanted or not jnp.issubdtype(experts.dtype, jnp.integer):
    raise ValueError(
      f'experts are {experts.dtype} {experts.shape}, but for these tokens the'
      f' model wants integers {wanted}: {listed} are its layers and the experts'
      ' of a token; replay what a model of the same sizes chose.'
    )


def _check(size: sizes.Sizes, remat: str) -> None:
  if size.heads % size.kv_heads:
    raise ValueError(
      f'{size.heads} heads are no multiple of {size.kv_heads} kv_heads: set '
      'Sizes.kv_heads to a divisor of Sizes.heads.'
    )
  if size.head_dim % 2:
    raise ValueError(
      f'rotary positions need an even head_dim, not {size.head_dim}.'
    )
  rope.frequencies(size.rope, size.head_dim)
  if size.mixture:
    sizes.check_mixture(size.mixture, size.layers)
  if remat not in REMAT:
    raise ValueError(f'remat is one of {REMAT}, not {remat!r}.')
