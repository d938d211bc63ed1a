"""Causal attention in blocks of queries, which never holds all scores at once.

A block sees the keys of its row up to the end of its stage, of which there are
a few, so that most of what lies above the diagonal is not computed. The forward
pass keeps the log of each token's normalizer; with it the backward pass makes
the weights of a block again (FlashAttention, arXiv:2205.14135, algorithm 4).
That goes over blocks of keys as well, for a small and fast memory; here only
what is kept matters, and a few large products are faster.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import ad_checkpoint

BLOCK = 128  # queries whose scores are held at a time
STAGES = 4  # lengths of keys that there are, about
KEPT = 'attention/mixed', 'attention/total'  # names of saved residuals
_HIDDEN = -1e30  # finite, so that a row of nothing but padding has no nan


class Causal(NamedTuple):
  """What tokens see: those of their row and segment up to themselves.

  Attributes:
    segments: int [B, T]; 0 is seen by none.
  """

  segments: jax.Array

  @property
  def shape(self) -> tuple[int, ...]:
    return self.segments.shape


class _Seen(NamedTuple):
  """The keys and values of a stage, [B, K, S, D], and their segments [B, S]."""

  keys: jax.Array
  values: jax.Array
  segments: jax.Array


@jax.custom_vjp
def attend(
  query: jax.Array, keys: jax.Array, values: jax.Array, segments: jax.Array
) -> jax.Array:
  """Softmax attention of the tokens of rows to those before them.

  Args:
    query: [B, T, K, G, D], G query heads on each of K key heads.
    keys: [B, K, T, D].
    values: [B, K, T, D].
    segments: int [B, T], see `Causal`. Where it is 0 the answer is finite.
  """
  return _forward(query, keys, values, segments)[0]


def _forward(query, keys, values, segments):
  query = query.transpose(0, 2, 3, 1, 4)
  parts = []
  for first, last in stages(segments.shape[1]):
    seen = _Seen(keys[:, :, :last], values[:, :, :last], segments[:, :last])
    mix = functools.partial(_mix, seen)
    parts.append(_each(mix, first, last, (query,), ())[1])
  made = [jnp.concatenate(each, 3) for each in zip(*parts)]
  mixed, total = map(ad_checkpoint.checkpoint_name, made, KEPT)
  kept = query, keys, values, segments, mixed, total
  return mixed.transpose(0, 3, 1, 2, 4), kept


def _backward(kept, cotangent):
  query, keys, values, segments, mixed, total = kept
  cotangent = cotangent.transpose(0, 2, 3, 1, 4)
  # Of a weight w = exp(score - total) the score's gradient is w (dw - centre).
  centre = jnp.einsum(
    'bkgnd,bkgnd->bkgn', mixed, cotangent, preferred_element_type=jnp.float32
  )
  of_blocks = query, total, cotangent, centre
  by_query = []
  turned = jnp.zeros(keys.shape[:2] + keys.shape[:1:-1], jnp.float32)
  sums: tuple[jax.Array, ...] = (turned, turned)
  for first, last in stages(segments.shape[1]):
    seen = _Seen(keys[:, :, :last], values[:, :, :last], segments[:, :last])
    unmix = functools.partial(_unmix, seen)
    start = tuple(x[..., :last] for x in sums)
    found, (part,) = _each(unmix, first, last, of_blocks, start)
    sums = tuple(x.at[..., :last].set(y) for x, y in zip(sums, found))
    by_query.append(part)
  joined = jnp.concatenate(by_query, 3).transpose(0, 3, 1, 2, 4)
  by_key, by_value = (x.swapaxes(2, 3).astype(keys.dtype) for x in sums)
  return joined, by_key, by_value, None


attend.defvjp(_forward, _backward)


def stages(length: int) -> list[tuple[int, int]]:
  """The first query of each stage and the one after: whole blocks or a part."""
  block = block_of(length)
  each = block * -(-length // (block * STAGES))
  made = []
  for first in range(0, length, each):
    last = min(first + each, length)
    middle = last - (last - first) % block
    ends = [first, middle, last]
    made += [(a, b) for a, b in zip(ends, ends[1:]) if a < b]
  return made


def block_of(length: int) -> int:
  """Queries of a block; a row that is one block of the usual size has two."""
  return BLOCK if length > BLOCK else BLOCK // 2


def _each(
  function: Callable, first: int, last: int, arrays: tuple, sums: tuple
) -> tuple[tuple, tuple]:
  """Goes over the blocks of a stage.

  Args:
    function: (first query, arrays of a block) -> (to add to the sums, results).
    first: query of the stage.
    last: the one after its end.
    arrays: [B, K, G, T, ...].
    sums: to start from.

  Returns:
    The sums, and the results of all blocks, [B, K, G, last - first, ...].
  """
  size = min(BLOCK, last - first)

  def one(sums, start):
    cut = lambda x: jax.lax.dynamic_slice_in_dim(x, start, size, 3)
    more, made = function(start, *map(cut, arrays))
    return tuple(x + y for x, y in zip(sums, more, strict=True)), made

  if last - first == size:
    return one(sums, first)
  sums, made = jax.lax.scan(one, sums, jnp.arange(first, last, size))

  def join(x):
    x = jnp.moveaxis(x, 0, 3)
    return x.reshape(*x.shape[:3], last - first, *x.shape[5:])

  return sums, tuple(map(join, made))


def _scores(seen, start, query, length):
  """Float32 [B, K, G * N, S]; what is not seen is far below all else."""
  scores = _product('bkmd,bksd->bkms', query, seen.keys)
  every = seen.segments
  own = jax.lax.dynamic_slice_in_dim(every, start, length, 1)
  same = (own[:, :, None] == every[:, None]) & (every != 0)[:, None]
  at = start + jnp.arange(length)[:, None]
  mask = same & (at >= jnp.arange(every.shape[1])[None])[None]
  mask = jnp.tile(mask, (1, query.shape[2] // length, 1))[:, None]
  return jnp.where(mask, scores / math.sqrt(query.shape[-1]), _HIDDEN)


def _mix(seen, start, query):
  """What a block of queries is answered, and the log of its normalizers."""
  shape, kind = query.shape, seen.values.dtype
  scores = _scores(seen, start, _flat(query), shape[3])
  peak = scores.max(-1, keepdims=True)
  weights = jnp.exp(scores - peak)
  total = weights.sum(-1, keepdims=True)
  mixed = _product('bkms,bksd->bkmd', weights.astype(kind), seen.values)
  mixed = (mixed / total).astype(kind).reshape(shape)
  return (), (mixed, (peak + jnp.log(total)).reshape(shape[:-1]))


def _unmix(seen, start, query, total, cotangent, centre):
  """Gradients by the keys and values of a stage, and by a block of queries.

  Those by keys and values are [B, K, D, S]: a product of matrices as they lie
  in memory, several times as fast on CPU as one with the weights transposed.
  """
  shape, kind = query.shape, query.dtype
  query, total, cotangent, centre = map(
    _flat, (query, total, cotangent, centre)
  )
  weights = jnp.exp(_scores(seen, start, query, shape[3]) - total)
  by_value = _product('bkmd,bkms->bkds', cotangent, weights.astype(kind))
  by_weight = _product('bkmd,bksd->bkms', cotangent, seen.values)
  by_score = weights * (by_weight - centre) / math.sqrt(shape[-1])
  by_score = by_score.astype(kind)
  by_query = _product('bkms,bksd->bkmd', by_score, seen.keys)
  by_key = _product('bkmd,bkms->bkds', query, by_score)
  return (by_key, by_value), (by_query.reshape(shape).astype(kind),)


def _flat(x):
  """[B, K, G, N, ...] -> [B, K, G * N, S]."""
  return x.reshape(*x.shape[:2], x.shape[2] * x.shape[3], -1)


def _product(formula, *factors):
  return jnp.einsum(formula, *factors, preferred_element_type=jnp.float32)
