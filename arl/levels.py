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
      not packed. Then pooling is a sum along the row, and a pooled column is
      [B, 1].
    num: how many ids there may be; static, so that shapes are.
  """

  ids: jax.Array
  num: int


def _by_row(level: Level) -> bool:
  return level.ids.shape[1] == 1


def _repeated(x: jax.Array, where: jax.Array) -> bool:
  """Whether `x` [B, 1] stands for every token of its row."""
  return x.shape[1] == 1 != where.shape[1]


def segment_sum(x: jax.Array, level: Level, where: jax.Array) -> jax.Array:
  """Sums of `x` [B, T] over each segment, counting where true: [N].

  `x` may be [B, 1], the same for every token of a row.
  """
  if not _by_row(level):
    kept = jnp.where(where, x, 0)
  elif _repeated(x, where):
    n = jnp.sum(where, axis=1, keepdims=True, dtype=x.dtype)
    kept = jnp.where(n > 0, x, 0) * n
  else:
    kept = jnp.sum(jnp.where(where, x, 0), axis=1)
  return jax.ops.segment_sum(kept.reshape(-1), level.ids.reshape(-1), level.num)


def _segment_extreme(x, level, where, fill, along_row, over_segments):
  """The extreme of `x` over each segment where true, else `fill`: [N]."""
  if _by_row(level) and _repeated(x, where):
    kept = jnp.where(jnp.any(where, axis=1, keepdims=True), x, fill)
  else:
    kept = jnp.where(where, x, jnp.asarray(fill, x.dtype))
    kept = along_row(kept, axis=1) if _by_row(level) else kept
  return over_segments(kept.reshape(-1), level.ids.reshape(-1), level.num)


def spread(v: jax.Array, level: Level) -> jax.Array:
  """Gives each token the value of its segment: [N] -> the shape of the ids."""
  return v[level.ids]


def total(x: jax.Array, level: Level, where: jax.Array) -> jax.Array:
  """The segment's sum of `x`, on every token of the segment.

  As all that follow it is of the shape of the ids: where each row is one
  segment that is [B, 1], which stands for the tokens of the row.
  """
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


def highest(x: jax.Array, level: Level, where: jax.Array) -> jax.Array:
  """The segment's largest `x`; -inf where a segment has no true token."""
  made = _segment_extreme(
    x, level, where, -jnp.inf, jnp.max, jax.ops.segment_max
  )
  return spread(made, level)


def lowest(x: jax.Array, level: Level, where: jax.Array) -> jax.Array:
  """The segment's smallest `x`; inf where a segment has no true token."""
  made = _segment_extreme(
    x, level, where, jnp.inf, jnp.min, jax.ops.segment_min
  )
  return spread(made, level)


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


def number(level: Level, where: jax.Array, dtype=float) -> jax.Array:
  """How many segments have a true token: scalar."""
  sizes = segment_sum(jnp.ones(where.shape, dtype), level, where)
  return jnp.sum(sizes > 0, dtype=dtype)


def first(level: Level, where: jax.Array) -> jax.Array:
  """Marks one token a segment, its first true one: bool [B, T]."""
  return jnp.flip(last(_flipped(level), jnp.flip(where)))


def last(level: Level, where: jax.Array) -> jax.Array:
  """Marks one token a segment, its last true one: bool [B, T].

  Statistics over sequences count each of them once by this mark. A segment
  that spans rows is ordered by row, then by token.
  """
  index = jnp.arange(where.size, dtype=jnp.int32).reshape(where.shape)
  latest = _segment_extreme(
    index, level, where, -1, jnp.max, jax.ops.segment_max
  )
  return where & (spread(latest, level) == index)


def once(level: Level, where: jax.Array, within: Level) -> jax.Array:
  """`last`, for statistics over the segments that lie within another level.

  Where both levels have an id a row, the mark is one of rows, [B, 1]: pooling
  what is [B, 1] as well then never looks at tokens.
  """
  if _by_row(level) and _by_row(within):
    return last(level, jnp.any(where, axis=1, keepdims=True))
  return last(level, where)


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
