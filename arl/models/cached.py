"""The keys and values that sampling keeps: their layout, writing, attention.

Of each row and key head, keys lie [D, S] and values [S, D], so that the product
with either reads rows of memory: with keys [S, D] the scores of a token took
twice as long on CPU. A cache can be kept in 8 bits, each token of each head by
a scale of its own, as in KIVI's plain baseline (arXiv:2402.02750, 2) and with
the scale on scores and weights instead of on what is kept, so that nothing is
ever restored. Sampling then is from a slightly other distribution than that of
`apply`, and its log-probs are those of the former.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

KINDS = ('', 'int8')
_LEVELS = 127  # of int8, on either side
# XLA's products on CPU add up in an order of their own where a matrix has 2**16
# numbers or more: below, a token's scores are the same bits however wide the
# cache is.
_PRODUCT = 2**15


class Exact(NamedTuple):
  """What B rows hold in S slots, in what the model computes in."""

  keys: Any  # [B, K, D, S]
  values: Any  # [B, K, S, D]


class Rounded(NamedTuple):
  """The same in 8 bits: a number is its integer times its scale."""

  keys: Any  # int8 [B, K, D, S]
  values: Any  # int8 [B, K, S, D]
  key_scales: Any  # float32 [B, K, S]
  value_scales: Any  # float32 [B, K, S]


Kept = Exact | Rounded


def check(kind: str) -> None:
  """Refuses an unknown kind of cache.

  Raises:
    ValueError: it is none of KINDS.
  """
  if kind not in KINDS:
    raise ValueError(
      f"cache is one of {KINDS}, '' for what the model computes in, not"
      f' {kind!r}.'
    )


def empty(
  rows: int, heads: int, slots: int, dim: int, dtype: jnp.dtype, kind: str
) -> Kept:
  """The cache of a layer with nothing in it."""
  held = jnp.int8 if kind else dtype
  keys = jnp.zeros((rows, heads, dim, slots), held)
  values = jnp.zeros((rows, heads, slots, dim), held)
  if not kind:
    return Exact(keys, values)
  scale = lambda: jnp.zeros((rows, heads, slots), jnp.float32)
  return Rounded(keys, values, scale(), scale())


def write(
  kept: Kept, positions: jax.Array, key: jax.Array, value: jax.Array
) -> Kept:
  """Puts what is new, [B, N, K, D], into slots [B, N].

  A slot that the cache does not have, -1 or past its end, drops it.
  """
  at = _places(positions, kept.values.shape[2])
  rows, slots = at
  if isinstance(kept, Exact):
    return Exact(
      kept.keys.at[rows, :, :, slots].set(key, mode='drop'),
      kept.values.at[rows, :, slots].set(value, mode='drop'),
    )
  (key, key_scale), (value, value_scale) = _rounded(key), _rounded(value)
  return Rounded(
    kept.keys.at[rows, :, :, slots].set(key, mode='drop'),
    kept.values.at[rows, :, slots].set(value, mode='drop'),
    kept.key_scales.at[rows, :, slots].set(key_scale, mode='drop'),
    kept.value_scales.at[rows, :, slots].set(value_scale, mode='drop'),
  )


def list_experts(
  listed: jax.Array, positions: jax.Array, new: jax.Array
) -> jax.Array:
  """The experts of S slots, [B, L, S, K], with those of new tokens."""
  rows, slots = _places(positions, listed.shape[2])
  return listed.at[rows, :, slots].set(new, mode='drop')


def attend(query: jax.Array, kept: Kept, positions: jax.Array) -> jax.Array:
  """Softmax attention of tokens to slots 0..position.

  Args:
    query: [B, N, K, G, D], G query heads on each of K key heads.
    kept: what the rows hold, these tokens included.
    positions: int [B, N]; for -1 the answer is a finite mean.

  Returns:
    [B, N, K, G, D], of the dtype of the query.
  """
  rows, length, heads, groups, dim = query.shape
  flat = query.transpose(0, 2, 3, 1, 4).reshape(rows, heads, -1, dim)
  scores = _scores(flat, kept.keys) / math.sqrt(dim)
  if isinstance(kept, Rounded):
    scores *= kept.key_scales[:, :, None]
  seen = jnp.tile(positions, (1, groups))[:, None, :, None]
  slots = jnp.arange(scores.shape[3])[None, None, None]
  # Finite, so that a row of nothing but padding has no nan.
  scores = jnp.where(slots <= seen, scores, -1e30)
  weights = jnp.exp(scores - scores.max(-1, keepdims=True))
  total = weights.sum(-1, keepdims=True)
  if isinstance(kept, Rounded):
    weights *= kept.value_scales[:, :, None]
  mixed = _product('bkms,bksd->bkmd', weights.astype(query.dtype), kept.values)
  mixed = (mixed / total).reshape(rows, heads, groups, length, dim)
  return mixed.transpose(0, 3, 1, 2, 4).astype(query.dtype)


def _scores(query, keys):
  """[B, K, M, S] of [B, K, M, D] and [B, K, D, S], in parts alike in width."""
  dim, slots = keys.shape[2:]
  width = max(_PRODUCT // dim, 1)
  parts = [
    _product('bkmd,bkds->bkms', query, keys[..., i : i + width])
    for i in range(0, slots, width)
  ]
  return parts[0] if len(parts) == 1 else jnp.concatenate(parts, -1)


def _product(formula, x, kept):
  kept = kept.astype(x.dtype)
  return jnp.einsum(formula, x, kept, preferred_element_type=jnp.float32)


def _places(positions, slots):
  # A negative index would count from the end; one past it is dropped.
  rows = jnp.arange(positions.shape[0])[:, None]
  return rows, jnp.where(positions < 0, slots, positions)


def _rounded(x):
  """x [..., D] as integers and a scale [...], so that the largest fits."""
  x = x.astype(jnp.float32)
  scale = jnp.abs(x).max(-1) / _LEVELS
  levels = jnp.round(x / jnp.where(scale > 0, scale, 1)[..., None])
  return levels.astype(jnp.int8), scale
