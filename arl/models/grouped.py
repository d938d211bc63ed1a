"""A matrix product whose rows come in groups, each with a matrix of its own.

`jax.lax.ragged_dot` means the same and has kernels on accelerators; on a CPU it
multiplies every row by every matrix. There the rows of a group are laid out in
tiles of a fixed height and each tile is one product with the matrix of its
group: beside the rows themselves at most a tile less one row is computed for
each group. With 4096 rows in 128 groups, matrices of [512, 192] and two cores
that took 40 ms for the 9 s of `ragged_dot`.

There may be more rows than the groups have: those after the last group are
room, for which nothing is computed.
"""

import jax
import jax.numpy as jnp

_TILE = 8, 64  # rows of a tile, at least and at most


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
    rows, cotangent, sizes, cpu=_tiled_outer, default=_ragged_outer
  )
  return to_rows, to_weights, None


dot.defvjp(_forward, _backward)


def _ragged(rows, weights, sizes):
  made = jax.lax.ragged_dot(
    rows, weights, sizes, preferred_element_type=jnp.float32
  )
  # What a kernel leaves in the rows of no group is its own affair.
  return jnp.where(_grouped(sizes, rows)[:, None], made, 0).astype(rows.dtype)


def _ragged_outer(rows, cotangent, sizes):
  shape = len(sizes), rows.shape[1], cotangent.shape[1]
  product = lambda weights: jax.lax.ragged_dot(
    rows, weights, sizes, preferred_element_type=jnp.float32
  ).astype(rows.dtype)
  weights = jax.ShapeDtypeStruct(shape, rows.dtype)
  return jax.linear_transpose(product, weights)(cotangent)[0]


def _tiled(rows, weights, sizes):
  tiles, owner, at, used = _tiles(sizes, rows)

  def put(i, out):
    made = jnp.dot(
      tiles[i], weights[owner[i]], preferred_element_type=jnp.float32
    )
    return out.at[i].set(made.astype(rows.dtype))

  shape = *tiles.shape[:2], weights.shape[2]
  made = jax.lax.fori_loop(0, used, put, jnp.zeros(shape, rows.dtype))
  made = made.reshape(-1, shape[-1])
  return made.at[at].get(mode='fill', fill_value=0)


def _tiled_outer(rows, cotangent, sizes):
  left, owner, _, used = _tiles(sizes, rows)
  right = _tiles(sizes, cotangent)[0]

  def add(i, total):
    made = jnp.dot(left[i].T, right[i], preferred_element_type=jnp.float32)
    return total.at[owner[i]].add(made)

  shape = len(sizes), rows.shape[1], cotangent.shape[1]
  zeros = jnp.zeros(shape, jnp.float32)
  return jax.lax.fori_loop(0, used, add, zeros).astype(rows.dtype)


def _tiles(sizes, rows):
  """Rows [P, D] as tiles [N, M, D], and what lies where in them.

  N is the most that any sizes need, so that shapes are known; only the first
  few are used.

  Returns:
    (tiles, the group of each [N], the place of each row among those of all
    tiles [P], how many tiles are used). The rows that a group leaves over in
    its last tile are 0; a row of no group has a place past the end.
  """
  count, most = len(rows), min(len(sizes), len(rows))
  height = _height(count, len(sizes))
  number = (count + most * (height - 1)) // height
  ends = jnp.cumsum(-(-sizes // height))
  owner = jnp.searchsorted(ends, jnp.arange(number), side='right')
  # Rows that lie before a group, there as they come and here in whole tiles.
  before = jnp.cumsum(sizes) - sizes
  first = jnp.concatenate([jnp.zeros(1, ends.dtype), ends[:-1]]) * height
  group = jnp.repeat(jnp.arange(len(sizes)), sizes, total_repeat_length=count)
  at = first[group] + jnp.arange(count) - before[group]
  at = jnp.where(_grouped(sizes, rows), at, number * height)
  flat = jnp.zeros((number * height, rows.shape[1]), rows.dtype)
  tiles = flat.at[at].set(rows, mode='drop').reshape(number, height, -1)
  return tiles, jnp.minimum(owner, len(sizes) - 1), at, ends[-1]


def _grouped(sizes, rows):
  """bool [P]: whether a row is of a group."""
  return jnp.arange(len(rows)) < jnp.sum(sizes)


def _height(count: int, groups: int) -> int:
  """Rows of a tile: about as many as a group has, a power of 2."""
  least, most = _TILE
  return min(most, max(least, 1 << (count // groups).bit_length()))
