"""The decoder of the Llama, Qwen2 and Qwen3 families.

Pre-norm residual layers of grouped-query attention with rotary positions and a
gated MLP. Modules here hold parameters and compute; the rest of arl sees only
the functions that `make` returns.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx

from arl.models import functional, rope, sizes

REMAT = ('none', 'layer')
Pair = tuple[jax.Array, jax.Array]


def make(
  size: sizes.Sizes, dtype: str = 'float32', remat: str = 'none'
) -> functional.Model:
  """A decoder as pure functions.

  Args:
    size: its sizes.
    dtype: what it computes in and what its cache holds. Norms, softmax, rotary
      tables and logits are float32 whatever it is; so are new parameters.
    remat: 'none', or 'layer' to keep only the input of each layer for the
      backward pass of `apply`.

  Raises:
    ValueError: sizes that do not fit together, or an unknown remat.
  """
  _check(size, remat)
  kind = jnp.dtype(dtype)
  init, bind = functional.pure(lambda rngs: Decoder(size, kind, rngs))

  def apply(params, tokens, positions, segments):
    return bind(params).apply(tokens, positions, segments, remat)

  def extend(params, tokens, positions, cache):
    return bind(params).extend(tokens, positions, cache)

  def attention_maxima(params, tokens, positions, segments):
    return bind(params).attention_maxima(tokens, positions, segments)

  def cache(rows, slots):
    shape = rows, size.kv_heads, slots, size.head_dim
    empty = lambda: jnp.zeros(shape, kind)
    return tuple((empty(), empty()) for _ in range(size.layers))

  def logits(params, hidden):
    return bind(params).logits(hidden)

  return functional.Model(
    init,
    apply,
    extend,
    attention_maxima,
    cache,
    logits,
    size.vocab,
    size.context,
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
      [Layer(size, dtype, rngs) for _ in range(size.layers)]
    )
    self.norm = Norm(size.width, size, dtype, rngs)
    self.head = None if size.tied else table()
    self.size, self.dtype = size, dtype

  def angles(self, positions):
    return rope.tables(self.size.rope, self.size.head_dim, positions)

  def apply(self, tokens, positions, segments, remat):
    angles, mask = self.angles(positions), _causal(segments)
    x = self.embed(tokens.reshape(-1))
    for layer in self.layers:
      run = lambda x, layer=layer: layer(x, angles, mask, _by_head)[0]
      x = jax.checkpoint(run)(x) if remat == 'layer' else run(x)
    return self.norm(x).reshape(*tokens.shape, -1)

  def attention_maxima(self, tokens, positions, segments):
    angles, mask = self.angles(positions), _causal(segments)
    x = self.embed(tokens.reshape(-1))
    found = []
    for layer in self.layers:
      found.append(
        layer.attention.maxima(layer.attention_norm(x), angles, mask)
      )
      x, _ = layer(x, angles, mask, _by_head)
    return jnp.stack(found)

  def extend(self, tokens, positions, cache):
    angles = self.angles(positions)
    slots = jnp.arange(cache[0][0].shape[2])
    mask = slots[None, None, :] <= positions[:, :, None]
    x = self.embed(tokens.reshape(-1))
    new = []
    for layer, old in zip(self.layers, cache, strict=True):
      store = functools.partial(_write, old, positions)
      x, pair = layer(x, angles, mask, store)
      new.append(pair)
    return self.norm(x).reshape(*tokens.shape, -1), tuple(new)

  def logits(self, hidden):
    table = (self.embed if self.head is None else self.head).embedding[...]
    return jax.lax.dot_general(
      hidden.astype(self.dtype),
      table.astype(self.dtype),
      (((hidden.ndim - 1,), (1,)), ((), ())),
      preferred_element_type=jnp.float32,
    )


class Layer(nnx.Module):
  """Attention and MLP, each added to the residual stream."""

  def __init__(self, size: sizes.Sizes, dtype: jnp.dtype, rngs: nnx.Rngs):
    self.attention_norm = Norm(size.width, size, dtype, rngs)
    self.attention = Attention(size, dtype, rngs)
    self.mlp_norm = Norm(size.width, size, dtype, rngs)
    self.mlp = Mlp(size, dtype, rngs)

  def __call__(
    self, x: jax.Array, angles: Pair, mask: jax.Array, store: Callable
  ) -> tuple[jax.Array, Pair]:
    """Maps x [B*N, D] to the same and what `store` made of keys and values."""
    mixed, pair = self.attention(self.attention_norm(x), angles, mask, store)
    x = x + mixed
    return x + self.mlp(self.mlp_norm(x)), pair


class Attention(nnx.Module):
  """Grouped-query attention over whatever `store` returns."""

  def __init__(self, size: sizes.Sizes, dtype: jnp.dtype, rngs: nnx.Rngs):
    linear = functools.partial(nnx.Linear, dtype=dtype, rngs=rngs)
    inner, outer = size.heads * size.head_dim, size.kv_heads * size.head_dim
    self.query = linear(size.width, inner, use_bias=size.qkv_bias)
    self.key = linear(size.width, outer, use_bias=size.qkv_bias)
    self.value = linear(size.width, outer, use_bias=size.qkv_bias)
    self.out = linear(inner, size.width, use_bias=size.out_bias)
    if size.qk_norm:
      self.query_norm = Norm(size.head_dim, size, dtype, rngs)
      self.key_norm = Norm(size.head_dim, size, dtype, rngs)
    self.size = size

  def __call__(self, x, angles, mask, store):
    query, key = self.queries_and_keys(x, angles, mask.shape[:2])
    value = self.value(x).reshape(key.shape)
    keys, values = store(key, value)
    mixed = _attend(query, keys, values, mask).reshape(len(x), -1)
    return self.out(mixed), (keys, values)

  def maxima(self, x, angles, mask):
    query, key = self.queries_and_keys(x, angles, mask.shape[:2])
    scores = _scores(query, key.swapaxes(1, 2))
    seen = jnp.where(mask[:, None, None], scores, -jnp.inf)
    return seen.max((0, 3, 4)).reshape(-1)

  def queries_and_keys(self, x, angles, shape):
    """[B, N, K, G, D] and [B, N, K, D] of x [B*N, W], shape (B, N)."""
    size = self.size
    heads = lambda flat: flat.reshape(*shape, -1, size.head_dim)
    query, key = heads(self.query(x)), heads(self.key(x))
    if size.qk_norm:
      query, key = self.query_norm(query), self.key_norm(key)
    query, key = rope.rotate(query, *angles), rope.rotate(key, *angles)
    groups = size.heads // size.kv_heads
    grouped = *shape, size.kv_heads, groups, size.head_dim
    return query.reshape(grouped), key


class Mlp(nnx.Module):
  """down(silu(gate(x)) * up(x))."""

  def __init__(self, size: sizes.Sizes, dtype: jnp.dtype, rngs: nnx.Rngs):
    linear = functools.partial(
      nnx.Linear, use_bias=False, dtype=dtype, rngs=rngs
    )
    self.gate = linear(size.width, size.mlp_width)
    self.up = linear(size.width, size.mlp_width)
    self.down = linear(size.mlp_width, size.width)

  def __call__(self, x):
    return self.down(jax.nn.silu(self.gate(x)) * self.up(x))


class Norm(nnx.RMSNorm):
  """RMSNorm that computes in float32 and answers in the dtype `answer`."""

  def __init__(self, width, size, answer, rngs):
    super().__init__(width, epsilon=size.norm_eps, dtype=jnp.float32, rngs=rngs)
    self.answer = answer

  def __call__(self, x, mask=None):
    return super().__call__(x, mask).astype(self.answer)


def _attend(
  query: jax.Array, keys: jax.Array, values: jax.Array, mask: jax.Array
) -> jax.Array:
  """Softmax attention.

  Args:
    query: [B, N, K, G, D], G query heads on each of K key heads.
    keys: [B, K, S, D].
    values: [B, K, S, D].
    mask: bool [B, N, S]. Where all is false the answer is a finite mean.
  """
  rows, length, heads, groups, dim = query.shape
  # Finite, so that a row of nothing but padding has no nan in its gradient.
  scores = jnp.where(mask[:, None, None], _scores(query, keys), -1e30)
  peak = jax.lax.stop_gradient(scores.max(-1, keepdims=True))
  weights = jnp.exp(scores - peak)
  mixed = jnp.einsum(
    'bkms,bksd->bkmd',
    weights.reshape(rows, heads, groups * length, -1).astype(values.dtype),
    values,
    preferred_element_type=jnp.float32,
  ).reshape(rows, heads, groups, length, dim)
  # Dividing after mixing saves a sixth of a gradient step on CPU.
  mixed /= weights.sum(-1, keepdims=True)
  return mixed.transpose(0, 3, 1, 2, 4).astype(values.dtype)


def _scores(query: jax.Array, keys: jax.Array) -> jax.Array:
  """Attention logits, float32 [B, K, G, N, S], of what `_attend` takes."""
  rows, length, heads, groups, dim = query.shape
  query = query.transpose(0, 2, 3, 1, 4).reshape(rows, heads, -1, dim)
  scores = jnp.einsum(
    'bkmd,bksd->bkms', query, keys, preferred_element_type=jnp.float32
  )
  return scores.reshape(rows, heads, groups, length, -1) / math.sqrt(dim)


def _causal(segments: jax.Array) -> jax.Array:
  """bool [B, T, T]: whether a token, in rows, sees another, in columns."""
  same = segments[:, :, None] == segments[:, None, :]
  mask = same & (segments != 0)[:, None, :]
  return mask & jnp.tri(segments.shape[1], dtype=bool)[None]


def _by_head(keys: jax.Array, values: jax.Array) -> Pair:
  """[B, T, K, D] -> [B, K, T, D], both."""
  return keys.swapaxes(1, 2), values.swapaxes(1, 2)


def _write(
  cache: Pair, positions: jax.Array, keys: jax.Array, values: jax.Array
) -> Pair:
  """Puts keys and values [B, N, K, D] into slots [B, N].

  A slot that the cache does not have, -1 or past its end, drops them.
  """
  rows = jnp.arange(positions.shape[0])[:, None]
  # A negative index would count from the end; one past it is dropped.
  slots = jnp.where(positions < 0, cache[0].shape[2], positions)
  put = lambda old, new: old.at[rows, :, slots].set(new, mode='drop')
  return put(cache[0], keys), put(cache[1], values)


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
  if remat not in REMAT:
    raise ValueError(f'remat is one of {REMAT}, not {remat!r}.')
