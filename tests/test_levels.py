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


@jax.jit
def _first(ids, where):
  return levels.first(levels.Level(ids, NUM), where)


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


@hypothesis.settings(max_examples=25, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32 - 1))
def test_first_marks_the_first_true_token_of_a_segment(seed):
  _, ids, where = _random(seed)
  want = np.zeros(SHAPE, bool)
  for segment in range(NUM):
    tokens = [t for t in np.ndindex(SHAPE) if where[t] and ids[t] == segment]
    if tokens:
      want[tokens[0]] = True
  np.testing.assert_array_equal(_first(ids, where), want)


# One segment a row: ids [B, 1] in place of ids [B, T].

ROW_WISE = {
  **JITTED,
  'log_softmax': jax.jit(
    lambda x, ids, where: levels.log_softmax(x, levels.Level(ids, NUM), where)
  ),
  'first': lambda x, ids, where: _first(ids, where),
  'last': lambda x, ids, where: _last(ids, where),
  'segment_sum': jax.jit(
    lambda x, ids, where: levels.segment_sum(x, levels.Level(ids, NUM), where)
  ),
}


@pytest.mark.parametrize('name', ROW_WISE)
@hypothesis.settings(max_examples=15, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32 - 1))
def test_an_id_a_row_pools_as_that_id_on_each_token(name, seed):
  x, ids, where = _random(seed)
  x = np.where(where, x, np.nan)  # off the mask nothing is looked at
  by_row = ids[:, :1]
  got = np.asarray(ROW_WISE[name](x, by_row, where))
  spread = np.ascontiguousarray(np.broadcast_to(by_row, SHAPE))
  want = np.asarray(ROW_WISE[name](x, spread, where))
  assert got.dtype == want.dtype
  if want.shape == SHAPE:
    assert got.shape in (SHAPE, (SHAPE[0], 1))
    got, want = np.broadcast_to(got, SHAPE)[where], want[where]
  np.testing.assert_allclose(got, want, atol=1e-6)


@pytest.mark.parametrize(
  'name', ['total', 'mean', 'sample std', 'highest', 'lowest']
)
@hypothesis.settings(max_examples=15, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32 - 1))
def test_a_number_a_row_counts_as_often_as_the_row_has_tokens(name, seed):
  x, ids, where = _random(seed)
  alive = np.where(np.any(where, axis=1, keepdims=True), x[:, :1], np.nan)
  got = np.asarray(ROW_WISE[name](alive, ids[:, :1], where))
  want = np.asarray(
    ROW_WISE[name](np.broadcast_to(x[:, :1], SHAPE), ids[:, :1], where)
  )
  assert got.shape == want.shape == (SHAPE[0], 1)
  np.testing.assert_allclose(got, want, atol=1e-6)


@hypothesis.settings(max_examples=15, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32 - 1))
def test_how_many_segments_have_a_token(seed):
  _, ids, where = _random(seed)
  want = len({ids[token] for token in np.ndindex(SHAPE) if where[token]})
  assert levels.number(levels.Level(ids, NUM), where) == want


@hypothesis.settings(max_examples=15, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32 - 1))
def test_one_mark_a_segment_of_rows_or_of_tokens(seed):
  _, ids, where = _random(seed)
  rows = levels.Level(ids[:, :1], NUM)
  every = levels.Level(np.broadcast_to(ids[:, :1], SHAPE), NUM)
  made = levels.once(rows, where, rows)
  assert made.shape == (SHAPE[0], 1)
  tokens = levels.once(rows, where, every)
  assert tokens.shape == SHAPE
  np.testing.assert_array_equal(made, np.any(tokens, axis=1, keepdims=True))
  np.testing.assert_array_equal(tokens, levels.last(every, where))


@pytest.mark.parametrize('name', ['total', 'mean', 'sample std', 'log_softmax'])
def test_an_id_a_row_gives_the_same_gradient(name):
  x, ids, _ = _random(5)
  where = np.array([[1, 1, 0, 1, 1], [0, 1, 1, 1, 0], [1, 0, 0, 1, 1]], bool)
  by_row, weights = ids[:, :1], np.arange(15.0, dtype=np.float32).reshape(SHAPE)
  spread = np.ascontiguousarray(np.broadcast_to(by_row, SHAPE))

  def gradient(ids):
    loss = lambda x: jnp.sum(
      jnp.where(where, ROW_WISE[name](x, ids, where), 0) * weights
    )
    return jax.grad(loss)(jnp.asarray(x))

  np.testing.assert_allclose(gradient(by_row), gradient(spread), atol=1e-5)


def test_log_softmax_against_plain_loops():
  for seed in range(4):
    x, ids, where = _random(seed)
    got = ROW_WISE['log_softmax'](100 * x, ids, where)  # exp of it overflows
    mass = _slow(
      lambda values: np.logaddexp.reduce(np.array(values or [0.0])),
      100 * x,
      ids,
      where,
    )
    np.testing.assert_allclose(
      np.asarray(got)[where], (100 * x - mass)[where], atol=1e-4
    )
    shares = _slow(sum, np.exp(np.where(where, got, 0)), ids, where)
    np.testing.assert_allclose(shares[where], 1, atol=1e-5)


def test_log_softmax_counts_a_sequence_once_by_its_mark():
  x = jnp.asarray([[1.0, 1.0, 1.0], [3.0, 3.0, 3.0]])
  where = jnp.asarray([[True, True, True], [True, False, False]])
  seq = levels.Level(jnp.asarray([[0], [1]]), 2)
  group = levels.Level(jnp.asarray([[0], [0]]), 2)
  got = levels.log_softmax(x, group, levels.last(seq, where))
  want = x - np.logaddexp(1.0, 3.0)
  np.testing.assert_allclose(got, want, rtol=1e-6)


def test_log_softmax_of_no_token_is_what_it_was():
  x = jnp.asarray([[2.0, -3.0]])
  level = levels.Level(jnp.asarray([[0, 1]]), 3)
  got = levels.log_softmax(x, level, jnp.zeros((1, 2), bool))
  np.testing.assert_array_equal(got, x)
  nothing = jnp.asarray([[jnp.nan, 1.0]])
  where = jnp.asarray([[False, True]])
  grad = jax.grad(
    lambda x: jnp.where(where, levels.log_softmax(x, level, where), 0).sum()
  )(nothing)
  np.testing.assert_array_equal(grad, [[0, 0]])


# Levels from the host.


def test_a_level_of_ids_in_range():
  ids = np.array([[0, 2], [1, 9]])
  where = np.array([[True, True], [True, False]])
  made = levels.level(ids, 3, where)  # 9 does not count
  assert made.num == 3 and made.ids.dtype == jnp.int32
  np.testing.assert_array_equal(made.ids, ids)
  by_row = levels.level(np.array([[2], [7]]), 3, np.array([[1, 0], [0, 0]]) > 0)
  assert by_row.ids.shape == (2, 1)
  assert levels.level(np.zeros((0, 4), int), 0).ids.shape == (0, 4)


@pytest.mark.parametrize(
  'ids, where, message',
  [
    ([[0, 3]], None, 'from 0 to 3; with num=3 they must be in [0, 3).'),
    ([[-1, 2]], None, 'from -1 to 2; with num=3 they must be in [0, 3).'),
    ([[5]], [[False, True]], 'from 5 to 5; with num=3 they must be in [0, 3).'),
    ([0, 1], None, 'ids are (2,); of a batch (2,) they must be'),
    (
      [[0, 1, 2]],
      [[True, True]],
      'ids are (1, 3); of a batch (1, 2) they must be [B, T] or [B, 1].',
    ),
  ],
)
def test_ids_that_are_refused(ids, where, message):
  where = None if where is None else np.array(where)
  with pytest.raises(ValueError) as caught:
    levels.level(np.array(ids), 3, where)
  assert message in str(caught.value)


def test_ids_are_whole_numbers():
  with pytest.raises(TypeError) as caught:
    levels.level(np.zeros((1, 2)), 3)
  assert str(caught.value) == 'level: ids are float64; they must be int32.'


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
