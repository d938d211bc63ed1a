"""Partitions of the tokens of a batch, and pooling over them.

One primitive serves every scale: pool a column over the segments of a `Level`
and spread the result back to the tokens. Sequences, turns, groups, pairs and
tree nodes are all levels.

Shapes: B rows, T tokens of a row, N segments (static).
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp


@functools.partial(
  jax.tree_util.register_dataclass, data_fields=['ids'], meta_fields=['num']
)
@dataclasses.dataclass(frozen=True)
class Level:
  """A partition of tokens into segments.

  Attributes:
    ids: int32 [B, T], the segment of each token, in [0, num). A token off the
      mask may carry any id: pooling never looks at it.
    num: how many ids there may be; static, so that shapes are.
  """

  ids: jax.Array
  num: int


def _flat(x: jax.Array, level: Level, where: jax.Array, fill) -> jax.Array:
  return jnp.where(where, x, jnp.asarray(fill, x.dtype)).reshape(-1)


def segment_sum(x: jax.Array, level: Level, where: jax.Array) -> jax.Array:
  """Sums of `x` [B, T] over each segment, counting where true: [N]."""
  return jax.ops.segment_sum(
    _flat(x, level, where, 0), level.ids.reshape(-1), level.num
  )


def spread(v: jax.Array, level: Level) -> jax.Array:
  """Gives each token the value of its segment: [N] -> [B, T]."""
  return v[level.ids]


def total(x: jax.Array, level: Level, where: jax.Array) -> jax.Array:
  """The segment's sum of `x`, on every token of the segment."""
  return spread(segment_sum(x, level, where), level)


def count(level: Level, where: jax.Array, dtype=float) -> jax.Array:
  """How many tokens of the segment are true in `where`."""
  return total(jnp.ones(where.shape, dtype), level, where)


def mean(x: jax.Array, level: Level, where: jax.Array) -> jax.Array:
  """The segment's mean of `x`; 0 where a segment has no true token."""
  n = jnp.maximum(count(level, where, x.dtype), 1)
  return total(x, level, where) / n


def std(
  x: jax.Array, level: Level, where: jax.Array, *, ddof: int = 1
) -> jax.Array:
  """The segment's standard deviation of `x`, in two passes.

  A segment with at most `ddof` true tokens has no deviation: 0.
  """
  n = count(level, where, x.dtype)
  square = jnp.square(x - mean(x, level, where))
  return jnp.sqrt(total(square, level, where) / jnp.maximum(n - ddof, 1))


def _extreme(x, level, where, segment_op, fill):
  flat = _flat(x, level, where, fill)
  return spread(segment_op(flat, level.ids.reshape(-1), level.num), level)


def highest(x: jax.Array, level: Level, where: jax.Array) -> jax.Array:
  """The segment's largest `x`; -inf where a segment has no true token."""
  return _extreme(x, level, where, jax.ops.segment_max, -jnp.inf)


def lowest(x: jax.Array, level: Level, where: jax.Array) -> jax.Array:
  """The segment's smallest `x`; inf where a segment has no true token."""
  return _extreme(x, level, where, jax.ops.segment_min, jnp.inf)


def last(level: Level, where: jax.Array) -> jax.Array:
  """Marks one token a segment, its last true one: bool [B, T].

  Statistics over sequences count each of them once by this mark. A segment
  that spans rows is ordered by row, then by token.
  """
  index = jnp.arange(where.size, dtype=jnp.int32)
  flat = jnp.where(where.reshape(-1), index, -1)
  latest = jax.ops.segment_max(flat, level.ids.reshape(-1), level.num)
  return where & (spread(latest, level) == index.reshape(where.shape))
