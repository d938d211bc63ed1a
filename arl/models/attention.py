"""Grouped-query attention with rotary positions, and the norm before it.

What a token of a full sequence sees is a mask; where its keys and values come
from is a function. What is kept for sampling is the business of
`arl.models.cached`.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx

from arl.models import blocks, cached, lora, remat, rope, sizes

Pair = tuple[jax.Array, jax.Array]


class Attention(nnx.Module):
  """Grouped-query attention over whatever `store` returns."""

  def __init__(self, size: sizes.Sizes, dtype: jnp.dtype, rngs: nnx.Rngs):
    linear = functools.partial(lora.Linear, dtype=dtype, rngs=rngs)
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
    query, key, value = (
      remat.name(made, remat.PRODUCTS) for made in (query, key, value)
    )
    keys, values = store(key, value)
    if isinstance(mask, blocks.Causal):
      mixed = blocks.attend(query, keys, values, mask.segments)
    else:
      mixed = _attend(query, keys, values, mask)
    return self.out(mixed.reshape(len(x), -1)), (keys, values)

  def extend(self, x, angles, positions, kept):
    """The same of new tokens [B*N, W], positions [B, N], after what is kept."""
    query, key = self.queries_and_keys(x, angles, positions.shape)
    value = self.value(x).reshape(key.shape)
    kept = cached.write(kept, positions, key, value)
    mixed = cached.attend(query, kept, positions).reshape(len(x), -1)
    return self.out(mixed), kept

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


class Norm(nnx.RMSNorm):
  """RMSNorm that computes in float32 and answers in the dtype `answer`."""

  def __init__(self, width, size, answer, rngs):
    super().__init__(width, epsilon=size.norm_eps, dtype=jnp.float32, rngs=rngs)
    self.answer = answer

  def __call__(self, x, mask=None):
    return super().__call__(x, mask).astype(self.answer)


def causal(segments: jax.Array) -> jax.Array:
  """bool [B, T, T]: whether a token, in rows, sees another, in columns."""
  same = segments[:, :, None] == segments[:, None, :]
  mask = same & (segments != 0)[:, None, :]
  return mask & jnp.tri(segments.shape[1], dtype=bool)[None]


def across(
  segments: jax.Array, axis: str
) -> tuple[jax.Array, Callable[[jax.Array, jax.Array], Pair]]:
  """What tokens see whose row is split over devices: a mask and a store.

  Each device has all keys and values of its rows and attends from its own part
  of the tokens, as in Llama 3 (arXiv:2407.21783, 3.3.2). With grouped queries
  those are few beside the states. Every device computes as many scores as any
  other, those that the mask hides included, so that no order of the tokens
  would balance the work better.

  Args:
    segments: int [B, N], of the tokens that this device has.
    axis: which the parts of a row lie along, in order.
  """
  gather = functools.partial(
    jax.lax.all_gather, axis_name=axis, axis=1, tiled=True
  )
  every, length = gather(segments), segments.shape[1]
  place = jax.lax.axis_index(axis) * length + jnp.arange(length)
  same = segments[:, :, None] == every[:, None, :]
  before = place[:, None] >= jnp.arange(every.shape[1])[None]
  mask = same & (every != 0)[:, None, :] & before[None]
  return mask, lambda keys, values: by_head(gather(keys), gather(values))


def along(
  paths: jax.Array, positions: jax.Array
) -> tuple[jax.Array, Callable[[jax.Array, jax.Array], Pair]]:
  """What the tokens of a tree see: the mask, and the store of their keys.

  Args:
    paths: int [B, S], where the token at each depth of a path lies among those
      of all rows; the tokens of a row lie on its path.
    positions: int [B, T], the depths of the tokens; -1 is no token.
  """
  slots = jnp.arange(paths.shape[1])
  mask = slots[None, None, :] <= positions[:, :, None]

  def store(keys, values):
    flat = (x.reshape(-1, *x.shape[2:]) for x in (keys, values))
    # Not looking whether a path leaves the tokens is faster.
    return by_head(*(x.at[paths].get(mode='promise_in_bounds') for x in flat))

  return mask, store


def by_head(keys: jax.Array, values: jax.Array) -> Pair:
  """[B, T, K, D] -> [B, K, T, D], both."""
  return keys.swapaxes(1, 2), values.swapaxes(1, 2)


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
