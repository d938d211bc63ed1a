"""Recurrences that run backward through time.

The scan is cut into stretches of time. Within one, columns are turned so that a
step reads its tokens from one place; all of that stays in the processor's
cache, where turning whole columns would not.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from arl import levels

_LONGEST = 256  # tokens of a stretch
_SHORTEST = 32


def stretch(width: int) -> int:
  """How many tokens of a row are scanned at a time: a divisor of the width.

  A width that has no divisor of a useful size is scanned in one go.
  """
  divisors = [n for n in range(1, _LONGEST + 1) if width % n == 0]
  return divisors[-1] if divisors[-1] >= _SHORTEST else width


def _advance(step: Callable, packed: bool) -> Callable:
  """One token of all rows: (carry, segments it comes from), columns -> same."""

  def advance(state, x):
    carry, origin = state
    on, ids, *columns = x
    start = carry
    if packed:
      start = tuple(jnp.where(ids == origin, c, 0) for c in carry)
      origin = jnp.where(on, ids, origin)
    new = step(start, tuple(columns))
    carry = tuple(jnp.where(on, n, c) for n, c in zip(new, carry))
    return (carry, origin), jnp.where(on, new[0], 0)

  return advance


def back(
  step: Callable,
  mask: jax.Array,
  seq: levels.Level,
  *columns: jax.Array,
  carried: int,
) -> jax.Array:
  """Runs `step(carry, x) -> carry` from last to first over the policy's tokens.

  Args:
    step: of two tuples of [B]: the carry and, at one token, the columns.
    mask: bool [B, T], the tokens that take a step; others leave the carry.
    seq: the carry starts at 0 at the end of each of its segments.
    *columns: [B, T], or [B, 1] for one value a row.
    carried: how many entries the carry has.

  Returns:
    The first entry of the carry after each token, 0 off the mask; no gradient.
  """
  rows, width = mask.shape
  size, packed = stretch(width), seq.ids.shape[1] == width
  advance = _advance(step, packed)
  columns = tuple(jnp.broadcast_to(x, mask.shape) for x in columns)
  zero = jnp.zeros(rows, columns[0].dtype)
  nowhere = jnp.full(rows, -1, seq.ids.dtype)

  def stretch_back(i, state):
    carry, out = state
    at = width - (i + 1) * size
    cut = lambda x: jax.lax.dynamic_slice_in_dim(x, at, size, axis=1).T
    ids = cut(seq.ids) if packed else None
    xs = (cut(mask), ids, *map(cut, jax.lax.stop_gradient(columns)))
    carry, made = jax.lax.scan(advance, carry, xs, reverse=True)
    return carry, jax.lax.dynamic_update_slice_in_dim(out, made.T, at, axis=1)

  state = ((zero,) * carried, nowhere), jnp.zeros(mask.shape, zero.dtype)
  _, out = jax.lax.fori_loop(0, width // size, stretch_back, state)
  return out
