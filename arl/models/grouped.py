"""A matrix product whose rows come in groups, each with a matrix of its own.

`jax.lax.ragged_dot` means the same and has kernels on accelerators; on a CPU it
multiplies every row by every matrix. There each group is cut into tiles of a
fixed height, and each tile is one product with the matrix of its group: beside
the rows themselves at most a tile less one row is computed for each group. With
4096 rows in 128 groups, matrices of [512, 192] and two cores that took 40 ms
for the 9 s of `ragged_dot`.

The gradient by the matrices goes in tiles everywhere. A TPU has no kernel for
it: what XLA makes of the gradient of `ragged_dot` holds all rows once for each
group and multiplies them all, 16 times the work for 16 groups.

There may be more rows than the groups have: those after the last group are
room, for which nothing is computed.
"""

import functools

import jax
import jax.numpy as jnp

_LEAST = 8  # rows of a tile
ON_CPU, ELSEWHERE = 64, 512  # the most


@jax.custom_vjp
def dot(rows: jax.Array, weights: jax.Array, sizes: jax.Array) -> jax.Array:
  """Each row times the matrix of its group; sums are float32.

  Args:
    rows: [P, D], those of group 0 first, then those of group 1, and so on.
    weights: [E, D, F], of the dtype of the rows.
    sizes: int32 [E], rows of each group; they add up to P, or to less.

  Returns:
    [P, F], of the dtype of the rows; 0 for a row of no group.
  """
  return jax.lax.platform_dependent(
    rows, weights, sizes, cpu=_tiled, default=_ragged
  )


def _forward(rows, weights, sizes):
  return dot(rows, weights, sizes), (rows, weights, sizes)


def _backward(kept, cotangent):
  rows, weights, sizes = kept
  to_rows = dot(cotangent, weights.swapaxes(1, 2), sizes)
  to_weights = jax.lax.platform_dependent(
    rows,
    cotangent,
    sizes,
    cpu=functools.partial(_outer, most=ON_CPU),
    default=functools.partial(_outer, most=ELSEWHERE),
  )
  return to_rows, to_weights, None


dot.defvjp(_forward, _backward)


def _ragged(rows, weights, sizes):
  made = jax.lax.ragged_dot(
    rows, weights, sizes, preferred_element_type=jnp.float32
  )
  # What a kernel leaves in the rows of no group is its own affair.
  return jnp.where(_grouped(sizes, rows)[:, None], made, 0).astype(rows.dtype)


def _tiled(rows, weights, sizes):
  height = tile(len(rows), len(sizes), ON_CPU)
  part, used = _parts(sizes, height)
  room = jnp.pad(rows, ((0, height), (0, 0)))

  def put(i, out):
    """What a tile has beyond its group is overwritten by the groups after."""
    group, start, _ = part(i)
    made = jnp.dot(
      jax.lax.dynamic_slice_in_dim(room, start, height),
      weights[group],
      preferred_element_type=jnp.float32,
    )
    made = made.astype(rows.dtype)
    return jax.lax.dynamic_update_slice_in_dim(out, made, start, 0)

  out = jnp.zeros((len(room), weights.shape[2]), rows.dtype)
  made = jax.lax.fori_loop(0, used, put, out)[: len(rows)]
  return jnp.where(_grouped(sizes, rows)[:, None], made, 0)


def _outer(rows, cotangent, sizes, *, most):
  """The sum over each group's rows of row times cotangent, [E, D, F]."""
  height = tile(len(rows), len(sizes), most)
  part, used = _parts(sizes, height)
  rooms = [jnp.pad(x, ((0, height), (0, 0))) for x in (rows, cotangent)]

  def add(i, total):
    group, start, count = part(i)
    here = (jnp.arange(height) < count)[:, None]
    left, right = (
      jnp.where(here, jax.lax.dynamic_slice_in_dim(x, start, height), 0)
      for x in rooms
    )
    made = jnp.dot(left.T, right, preferred_element_type=jnp.float32)
    return total.at[group].add(made)

  shape = len(sizes), rows.shape[1], cotangent.shape[1]
  total = jax.lax.fori_loop(0, used, add, jnp.zeros(shape, jnp.float32))
  return total.astype(rows.dtype)


def _parts(sizes, height):
  """How groups are cut into tiles.

  Returns:
    (a function from the number of a tile to its group, its first row and how
    many rows of the group it has; how many tiles there are).
  """
  sizes = jnp.asarray(sizes)
  tiles, before = -(-sizes // height), jnp.cumsum(sizes) - sizes
  ends = jnp.cumsum(tiles)

  def part(i):
    group = jnp.searchsorted(ends, i, side='right')
    done = (i - (ends[group] - tiles[group])) * height
    count = jnp.minimum(sizes[group] - done, height)
    return group, before[group] + done, count

  return part, ends[-1]


def _grouped(sizes, rows):
  """bool [P]: whether a row is of a group."""
  return jnp.arange(len(rows)) < jnp.sum(sizes)


def tile(count: int, groups: int, most: int) -> int:
  """Rows of a tile: about as many as a group has, a power of 2."""
  return min(most, max(_LEAST, 1 << (count // groups).bit_length()))
