"""Gated MLPs, each for a group of rows: what the experts of a mixture do.

Rows are picks of tokens, those of the first group first. Each group is cut into
tiles of a fixed height, and a loop goes through as many tiles as there are,
forward and backward: it fetches the tokens of a tile, multiplies them by the
matrices of their group and adds what comes of it to where they came from. So
work and traffic are those of the rows that came, at most a tile less one row
more for each group, and nothing is held that is as long as the picks and as
wide as the states. `jax.lax.ragged_dot` holds all rows at once and multiplies
them on a CPU by every matrix, as the gradient by matrices does on a TPU.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

_LEAST = 8  # rows of a tile
ON_CPU, ELSEWHERE = 64, 512  # the most


class Tile(NamedTuple):
  """Some picks of one group.

  Attributes:
    group: which.
    start: the first pick.
    tokens: int32 [h], one past the last token where the group has no more.
    weights: float32 [h], 0 there.
  """

  group: jax.Array
  start: jax.Array
  tokens: jax.Array
  weights: jax.Array

  def of(self, x: jax.Array) -> jax.Array:
    """Its rows of x [n, D], [h, D]; 0 where the group has no more."""
    return x.at[self.tokens].get(mode='fill', fill_value=0)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def mlp(
  spread: int,
  x: jax.Array,
  picked: jax.Array,
  weights: jax.Array,
  sizes: jax.Array,
  gate: jax.Array,
  up: jax.Array,
  down: jax.Array,
) -> jax.Array:
  """The sum of weight times down(silu(gate(x)) * up(x)) over a token's picks.

  Products add up in float32; what is multiplied next has the dtype of `x`.

  Args:
    spread: over how many groups the picks are, these and those elsewhere.
    x: [n, D], tokens.
    picked: int32 [P], the token of each pick, those of group 0 first, then
      those of group 1, and so on; none is in a group twice. There may be more
      than the groups have: those after the last group are room, and mean
      nothing.
    weights: float32 [P].
    sizes: int32 [E], picks of each group.
    gate: [E, D, F], of the dtype of `x`, as `up` and `down`.
    up: [E, D, F].
    down: [E, F, D].

  Returns:
    float32 [n, D].
  """
  heights = _heights(len(picked), spread)
  arguments = x, picked, weights, sizes, gate, up, down
  return _by_platform(_summed, heights, *arguments)


def _forward(spread, *arguments):
  return mlp(spread, *arguments), arguments


def _backward(spread, arguments, cotangent):
  x, picked, weights, _, gate, up, down = arguments
  heights = _heights(len(picked), spread)
  made = _by_platform(_pulled, heights, cotangent, *arguments)
  kinds = [each.dtype for each in (x, weights, gate, up, down)]
  to_x, to_weights, *rest = (
    each.astype(kind) for each, kind in zip(made, kinds)
  )
  return to_x, None, to_weights, None, *rest


mlp.defvjp(_forward, _backward)


def _heights(picks, spread):
  return [tile_height(picks, spread, most) for most in (ON_CPU, ELSEWHERE)]


def _by_platform(function, heights, *arguments):
  on_cpu, elsewhere = (functools.partial(function, h) for h in heights)
  return jax.lax.platform_dependent(*arguments, cpu=on_cpu, default=elsewhere)


def _summed(height, x, picked, weights, sizes, gate, up, down):
  fetch, used = _tiles(picked, weights, sizes, len(x), height)

  def add(i, total):
    tile = fetch(i)
    hidden = _gated(*_inner(tile.of(x), gate[tile.group], up[tile.group]))
    made = tile.weights[:, None] * _dot(hidden, down[tile.group])
    return total.at[tile.tokens].add(made, mode='drop')

  return jax.lax.fori_loop(0, used, add, jnp.zeros(x.shape, jnp.float32))


def _pulled(height, cotangent, x, picked, weights, sizes, gate, up, down):
  """Gradients by x, weights and the matrices, all float32."""
  fetch, used = _tiles(picked, weights, sizes, len(x), height)

  def add(i, sums):
    to_x, to_weights, *to_matrices = sums
    tile = fetch(i)
    group, weight = tile.group, tile.weights[:, None]
    rows, theirs = tile.of(x), tile.of(cotangent)
    hidden, pull = jax.vjp(_gated, *_inner(rows, gate[group], up[group]))
    through = _dot(theirs.astype(x.dtype), down[group].T)
    to_gate, to_up = pull((weight * through).astype(x.dtype))
    outer = (weight * theirs).astype(x.dtype)
    of_rows = _dot(to_gate, gate[group].T) + _dot(to_up, up[group].T)
    pairs = (rows, to_gate), (rows, to_up), (hidden, outer)
    to_matrices = [
      total.at[group].add(_dot(left.T, right))
      for total, (left, right) in zip(to_matrices, pairs)
    ]
    # What a tile has beyond its group is overwritten by the groups after.
    to_weights = jax.lax.dynamic_update_slice_in_dim(
      to_weights, jnp.sum(hidden * through, -1), tile.start, 0
    )
    to_x = to_x.at[tile.tokens].add(of_rows, mode='drop')
    return to_x, to_weights, *to_matrices

  shapes = x.shape, (len(weights) + height,), gate.shape, up.shape, down.shape
  zeros = tuple(jnp.zeros(shape, jnp.float32) for shape in shapes)
  to_x, to_weights, *rest = jax.lax.fori_loop(0, used, add, zeros)
  return to_x, to_weights[: len(weights)], *rest


def _inner(rows, gate, up):
  return tuple(_dot(rows, each).astype(rows.dtype) for each in (gate, up))


def _gated(gate, up):
  return jax.nn.silu(gate) * up


def _dot(x, y):
  return jnp.dot(x, y, preferred_element_type=jnp.float32)


def _tiles(
  picked: jax.Array,
  weights: jax.Array,
  sizes: jax.Array,
  tokens: int,
  height: int,
) -> tuple[Callable[[jax.Array], Tile], jax.Array]:
  """The tile of a number, and how many tiles there are."""
  sizes = jnp.asarray(sizes)
  counts, before = -(-sizes // height), jnp.cumsum(sizes) - sizes
  ends = jnp.cumsum(counts)
  room = [jnp.pad(each, (0, height)) for each in (picked, weights)]

  def fetch(i):
    group = jnp.searchsorted(ends, i, side='right')
    done = (i - (ends[group] - counts[group])) * height
    start = before[group] + done
    ids, part = (
      jax.lax.dynamic_slice_in_dim(each, start, height) for each in room
    )
    here = jnp.arange(height) < sizes[group] - done
    ids, part = jnp.where(here, ids, tokens), jnp.where(here, part, 0)
    return Tile(group, start, ids, part)

  return fetch, ends[-1]


def tile_height(picks: int, groups: int, most: int) -> int:
  """Rows of a tile: about as many as a group has, a power of 2."""
  return min(most, max(_LEAST, 1 << (picks // groups).bit_length()))
