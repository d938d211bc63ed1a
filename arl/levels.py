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
import numpy as np


@functools.partial(
  jax.tree_util.register_dataclass, data_fields=['ids'], meta_fields=['num']
)
@dataclasses.dataclass(frozen=True)
class Level:
  """A partition of tokens into segments.

  Attributes:
    ids: int32, the segment of each token, in [0, num). [B, T], where a token
      off the mask may carry any id: pooling never looks at it; or [B, 1] where
      every row lies in one segment, as sequences do when they are padded and
      not packed: then pooling is a sum along the row.
    num: how many ids there may be; static, so that shapes are.
  """

  ids: jax.Array
  num: int


def _pool(x, level, where, fill, along_row, over_segments):
  """Pools where true: along each row first, if it lies in one segment."""
  kept = jnp.where(where, x, jnp.asarray(fill, x.dtype))
  if level.ids.shape[1] == 1:
    kept = along_row(kept, axis=1)
  return over_segments(kept.reshape(-1), level.ids.reshape(-1), level.num)


def segment_sum(x: jax.Array, level: Level, where: jax.Array) -> jax.Array:
  """Sums of `x` [B, T] over each segment, counting where true: [N]."""
  return _pool(x, level, where, 0, jnp.sum, jax.ops.segment_sum)


def spread(v: jax.Array, level: Level) -> jax.Array:
  """Gives each token the value of its segment: [N] -> the shape of the ids."""
  return v[level.ids]


def _spread_to(v, level, where):
  return jnp.broadcast_to(spread(v, level), where.shape)


def total(x: jax.Array, level: Level, where: jax.Array) -> jax.Array:
  """The segment's sum of `x`, on every token of the segment."""
  return _spread_to(segment_sum(x, level, where), level, where)


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


def highest(x: jax.Array, level: Level, where: jax.Array) -> jax.Array:
  """The segment's largest `x`; -inf where a segment has no true token."""
  top = _pool(x, level, where, -jnp.inf, jnp.max, jax.ops.segment_max)
  return _spread_to(top, level, where)


def lowest(x: jax.Array, level: Level, where: jax.Array) -> jax.Array:
  """The segment's smallest `x`; inf where a segment has no true token."""
  bottom = _pool(x, level, where, jnp.inf, jnp.min, jax.ops.segment_min)
  return _spread_to(bottom, level, where)


def log_softmax(x: jax.Array, level: Level, where: jax.Array) -> jax.Array:
  """`x` less the log of the segment's sum of exp(x), on every token.

  Only what is true in `where` is summed: mark sequences by `last`, and this is
  a distribution over the sequences of a group. Where a segment has no true
  token it is `x`.
  """
  top = jax.lax.stop_gradient(highest(x, level, where))
  shifted = x - jnp.where(jnp.isfinite(top), top, 0)
  mass = total(jnp.exp(jnp.where(where, shifted, 0)), level, where)
  return shifted - jnp.log(jnp.where(mass > 0, mass, 1))


def first(level: Level, where: jax.Array) -> jax.Array:
  """Marks one token a segment, its first true one: bool [B, T]."""
  return jnp.flip(last(_flipped(level), jnp.flip(where)))


def last(level: Level, where: jax.Array) -> jax.Array:
  """Marks one token a segment, its last true one: bool [B, T].

  Statistics over sequences count each of them once by this mark. A segment
  that spans rows is ordered by row, then by token.
  """
  index = jnp.arange(where.size, dtype=jnp.int32).reshape(where.shape)
  latest = _pool(index, level, where, -1, jnp.max, jax.ops.segment_max)
  return where & (spread(latest, level) == index)


def _flipped(level: Level) -> Level:
  return Level(jnp.flip(level.ids), level.num)


def level(ids: np.ndarray, num: int, where: np.ndarray | None = None) -> Level:
  """A Level from ids on the host, checked.

  Args:
    ids: int32 [B, T], or [B, 1] for one segment a row.
    num: how many ids there may be.
    where: bool [B, T], the tokens whose id counts; None for all. That of a row
      counts if one of its tokens does.

  Raises:
    ValueError: an id that counts is outside [0, num), or ids have no shape of
      the above.
    TypeError: ids are no whole numbers.
  """
  ids = np.asarray(ids)
  if not np.issubdtype(ids.dtype, np.integer):
    raise TypeError(f'level: ids are {ids.dtype}; they must be int32.')
  where = np.ones(ids.shape, bool) if where is None else where
  if ids.ndim != 2 or ids.shape not in (where.shape, (len(where), 1)):
    raise ValueError(
      f'level: ids are {ids.shape}; of a batch {where.shape} they must be'
      ' [B, T] or [B, 1].'
    )
  counted = ids[where if ids.shape == where.shape else np.any(where, axis=1)]
  if counted.size and not (counted.min() >= 0 and counted.max() < num):
    raise ValueError(
      f'level: ids run from {counted.min()} to {counted.max()}; with num={num}'
      f' they must be in [0, {num}).'
    )
  return Level(jnp.asarray(ids, jnp.int32), num)
