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


@pytest.mark.parametrize('name', CASES)
@pytest.mark.parametrize('most', [grouped.ON_CPU, grouped.ELSEWHERE])
def test_outer_products_are_sums_over_groups(name, most):
  rows, _, sizes = drawn(name)
  cotangent = jnp.cos(rows[:, :5])
  ends = np.cumsum(sizes)
  wanted = [
    rows[end - n : end].T @ cotangent[end - n : end]
    for n, end in zip(sizes, ends)
  ]
  made = grouped._outer(rows, cotangent, sizes, most=most)
  CLOSE(made, jnp.stack(wanted))


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


def test_tiles_cover_each_group_once():
  sizes, height = np.array([9, 0, 70, 1]), 16
  part, used = grouped._parts(sizes, height)
  assert used == np.sum(-(-sizes // height))  # room has none
  covered = []
  for i in range(used):
    group, start, count = map(int, part(i))
    assert 0 < count <= height
    first = sum(sizes[:group])
    assert first <= start and start + count <= first + sizes[group]
    covered += range(start, start + count)
  assert covered == list(range(sizes.sum()))


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
  'count, groups, most, height',
  [
    (1, 4, 64, 8),
    (8, 128, 64, 8),
    (100, 8, 64, 16),
    (4096, 128, 64, 64),
    (10**6, 8, 64, 64),
    (10**6, 8, 512, 512),
  ],
)
def test_a_tile_is_about_a_group(count, groups, most, height):
  assert grouped.tile(count, groups, most) == height
