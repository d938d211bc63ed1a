"""Products by groups of rows against a loop over the groups."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl.models import grouped

CASES = {
  'even': [4, 4, 4],
  'ragged': [1, 0, 30, 2, 0],
  'one group': [0, 17, 0],
  'one row': [0, 0, 0, 1],
  'more groups than rows': [1, 0, 0, 1, 0, 0, 1, 0, 0, 0],
  'several tiles': [70, 3, 40],
}
DOT = jax.jit(grouped.dot)
CLOSE = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)


def drawn(name, dtype=jnp.float32):
  rng, sizes = np.random.default_rng(0), np.array(CASES[name], np.int32)
  rows = jnp.asarray(rng.normal(size=(sizes.sum(), 8)), dtype)
  weights = jnp.asarray(rng.normal(size=(len(sizes), 8, 5)), dtype)
  return rows, weights, sizes


def by_loop(rows, weights, sizes):
  owners = np.repeat(np.arange(len(sizes)), sizes)
  return jnp.stack([row @ weights[e] for row, e in zip(rows, owners)])


@pytest.mark.parametrize('name', CASES)
def test_each_row_meets_the_matrix_of_its_group(name):
  rows, weights, sizes = drawn(name)
  CLOSE(DOT(rows, weights, sizes), by_loop(rows, weights, sizes))


@pytest.mark.parametrize('name', CASES)
def test_gradients(name):
  rows, weights, sizes = drawn(name)
  of = lambda how: jax.jit(
    jax.grad(lambda *pair: jnp.sin(how(*pair, sizes)).sum(), (0, 1))
  )
  found, expected = of(grouped.dot), of(by_loop)
  for one, other in zip(found(rows, weights), expected(rows, weights)):
    CLOSE(one, other)


def test_the_kernel_of_accelerators_means_the_same():
  rows, weights, sizes = drawn('ragged')
  made = grouped._ragged(rows, weights, sizes)
  CLOSE(made, DOT(rows, weights, sizes))
  cotangent = jnp.cos(made)
  CLOSE(
    grouped._ragged_outer(rows, cotangent, sizes),
    grouped._tiled_outer(rows, cotangent, sizes),
  )


@pytest.mark.parametrize('how', [grouped.dot, grouped._ragged])
def test_rows_of_no_group_are_room(how):
  rows, weights, sizes = drawn('ragged')
  room = jnp.concatenate([rows, jnp.full((40, 8), jnp.nan)])
  both = jax.jit(
    jax.value_and_grad(lambda *pair: jnp.sin(how(*pair, sizes)).sum(), (0, 1))
  )
  value, (to_rows, to_weights) = both(room, weights)
  wanted, (of_rows, of_weights) = both(rows, weights)
  CLOSE(value, wanted)
  CLOSE(to_rows, np.pad(of_rows, ((0, 40), (0, 0))))
  CLOSE(to_weights, of_weights)
  assert not np.any(how(room, weights, sizes)[len(rows) :])


@pytest.mark.parametrize('room', [0, 1000])
def test_room_is_not_multiplied(room):
  sizes = np.array([9, 0, 70, 1])
  rows = jnp.zeros((sizes.sum() + room, 8))
  tiles, _, _, used = grouped._tiles(sizes, rows)
  assert used == np.sum(-(-sizes // tiles.shape[1])) <= len(tiles)


def test_a_row_does_not_depend_on_the_others():
  rows, weights, sizes = drawn('several tiles')
  others = rows.at[:50].set(7.0).at[51:].set(jnp.nan)
  expected = DOT(rows, weights, sizes)[50]
  np.testing.assert_array_equal(DOT(others, weights, sizes)[50], expected)


def test_sums_are_wider_than_half_precision():
  rows, weights, sizes = drawn('even', jnp.bfloat16)
  made = DOT(rows, weights, sizes)
  exact = by_loop(*(x.astype(jnp.float32) for x in (rows, weights)), sizes)
  assert made.dtype == jnp.bfloat16
  np.testing.assert_array_equal(made, exact.astype(jnp.bfloat16))


@pytest.mark.parametrize(
  'count, groups, height',
  [(1, 4, 8), (8, 128, 8), (100, 8, 16), (4096, 128, 64), (10**6, 8, 64)],
)
def test_a_tile_is_about_a_group(count, groups, height):
  assert grouped._height(count, groups) == height
