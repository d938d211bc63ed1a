"""Pooling over segments, against plain loops."""

import functools
import math

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl import levels

SHAPE, NUM = (3, 5), 4


def _random(seed):
  rng = np.random.default_rng(seed)
  x = rng.normal(size=SHAPE).astype(np.float32)
  ids = rng.integers(NUM, size=SHAPE).astype(np.int32)
  return x, ids, rng.random(SHAPE) < 0.6


def _slow(pool, x, ids, where):
  """pool(list of the segment's values) on every token of the segment."""
  out = np.zeros(x.shape)
  for token in np.ndindex(x.shape):
    same = [
      float(x[other])
      for other in np.ndindex(x.shape)
      if where[other] and ids[other] == ids[token]
    ]
    out[token] = pool(same)
  return out


def _deviation(ddof, values):
  if len(values) <= ddof:
    return 0.0
  middle = sum(values) / len(values)
  square = sum((v - middle) ** 2 for v in values)
  return math.sqrt(square / (len(values) - ddof))


POOLS = {
  'total': (levels.total, sum),
  'count': (lambda x, level, where: levels.count(level, where), len),
  'mean': (levels.mean, lambda values: sum(values) / max(len(values), 1)),
  'sample std': (levels.std, functools.partial(_deviation, 1)),
  'population std': (
    functools.partial(levels.std, ddof=0),
    functools.partial(_deviation, 0),
  ),
  'highest': (levels.highest, lambda values: max(values, default=-math.inf)),
  'lowest': (levels.lowest, lambda values: min(values, default=math.inf)),
}
JITTED = {
  name: jax.jit(
    lambda x, ids, where, pool=pool: pool(x, levels.Level(ids, NUM), where)
  )
  for name, (pool, _) in POOLS.items()
}


@pytest.mark.parametrize('name', POOLS)
@hypothesis.settings(max_examples=15, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32 - 1))
def test_pools_equal_plain_loops(name, seed):
  x, ids, where = _random(seed)
  want = _slow(POOLS[name][1], x, ids, where)
  np.testing.assert_allclose(JITTED[name](x, ids, where), want, atol=1e-6)


@pytest.mark.parametrize('name', POOLS)
def test_what_lies_off_the_mask_is_never_looked_at(name):
  x, ids, where = _random(3)
  clean = JITTED[name](x, ids, where)
  for bad in (np.nan, np.inf, -np.inf, 1e9):
    dirty = np.where(where, x, np.float32(bad))
    for bad_id in (-7, NUM, 2**30):
      dirty_ids = np.where(where, ids, np.int32(bad_id))
      got = JITTED[name](dirty, dirty_ids, where)
      np.testing.assert_array_equal(got[where], clean[where])


@jax.jit
def _last(ids, where):
  return levels.last(levels.Level(ids, NUM), where)


@hypothesis.settings(max_examples=25, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32 - 1))
def test_last_marks_the_last_true_token_of_a_segment(seed):
  _, ids, where = _random(seed)
  want = np.zeros(SHAPE, bool)
  for segment in range(NUM):
    tokens = [t for t in np.ndindex(SHAPE) if where[t] and ids[t] == segment]
    if tokens:
      want[tokens[-1]] = True
  np.testing.assert_array_equal(_last(ids, where), want)


def test_segment_sum_and_spread_by_hand():
  x = jnp.asarray([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]])
  level = levels.Level(jnp.asarray([[0, 0, 2], [2, 0, 1]]), 4)
  where = jnp.asarray([[True, True, True], [True, False, True]])
  sums = levels.segment_sum(x, level, where)
  np.testing.assert_array_equal(sums, [3, 32, 12, 0])
  np.testing.assert_array_equal(
    levels.spread(sums, level), [[3, 3, 12], [12, 3, 32]]
  )


def test_std_in_two_passes_keeps_precision_far_from_zero():
  x = jnp.asarray([[10000.0, 10001.0, 10002.0]])
  level = levels.Level(jnp.zeros((1, 3), jnp.int32), 1)
  where = jnp.ones((1, 3), bool)
  np.testing.assert_allclose(levels.std(x, level, where), 1.0, rtol=1e-6)


def test_counts_do_not_stall():
  level = levels.Level(jnp.zeros((1, 4099), jnp.int32), 1)
  where = jnp.ones((1, 4099), bool)
  assert float(levels.count(level, where)[0, 0]) == 4099


def test_gradient_of_a_mean_is_a_share_on_the_mask_and_zero_off_it():
  level = levels.Level(jnp.asarray([[0, 0, 1, 1]]), 2)
  where = jnp.asarray([[True, True, True, False]])

  def first(x):
    return jnp.sum(levels.mean(x, level, where)[0, :1])

  x = jnp.asarray([[1.0, 2.0, 3.0, np.nan]])
  np.testing.assert_array_equal(jax.grad(first)(x), [[0.5, 0.5, 0, 0]])


def test_a_level_is_a_tree_with_a_static_size():
  level = levels.Level(jnp.zeros((1, 2), jnp.int32), 7)
  leaves, tree = jax.tree.flatten(level)
  assert len(leaves) == 1
  assert jax.tree.unflatten(tree, leaves).num == 7
