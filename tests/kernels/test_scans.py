"""The backward scan, against a plain loop over each row."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl import levels
from arl.kernels import scans

ROWS, NUM = 3, 12


def sum_and_last(carry, x):
  """The discounted sum, and beside it the column that the step before read."""
  (total, later), (reward, value) = carry, x
  return reward + 0.9 * total + later, value


def slow(mask, ids, reward, value):
  """The same, one token at a time; a carry for each segment of the row."""
  out = np.zeros(mask.shape)
  for row in range(len(mask)):
    total = later = 0.0
    at = None
    for t in reversed(range(mask.shape[1])):
      if not mask[row, t]:
        continue
      if ids[row, t] != at:
        total, later, at = 0.0, 0.0, ids[row, t]
      total = reward[row, t] + 0.9 * total + later
      later = value[row, t]
      out[row, t] = total
  return out


def arrays(width):
  """A random mask and columns, and four segments a row."""
  random = np.random.default_rng(width)
  mask = random.random((ROWS, width)) < 0.7
  reward, value = random.normal(size=(2, ROWS, width)).astype(np.float32)
  segment = np.arange(width) * 4 // width + 4 * np.arange(ROWS)[:, None]
  return mask, segment.astype(np.int32), reward, value


def run(mask, ids, *columns):
  level = levels.Level(jnp.asarray(ids), NUM)
  back = jax.jit(
    lambda mask, *columns: scans.back(
      sum_and_last, mask, level, *columns, carried=2
    )
  )
  return np.asarray(back(mask, *columns))


# One stretch; several; a prime width that cannot be cut; one token.
@pytest.mark.parametrize('width', [20, 512, 600, 521, 1])
def test_equals_a_loop(width):
  mask, ids, reward, value = arrays(width)
  want = slow(mask, ids, reward, value)
  np.testing.assert_allclose(run(mask, ids, reward, value), want, atol=1e-5)


@pytest.mark.parametrize('width', [20, 512, 521])
def test_a_segment_a_row(width):
  mask, _, reward, value = arrays(width)
  ids = np.arange(ROWS, dtype=np.int32)[:, None]
  want = slow(mask, np.broadcast_to(ids, mask.shape), reward, value)
  np.testing.assert_allclose(run(mask, ids, reward, value), want, atol=1e-5)


def test_a_column_of_one_value_a_row():
  mask, ids, reward, _ = arrays(20)
  value = np.float32([[1], [2], [3]])
  want = run(mask, ids, reward, np.repeat(value, 20, axis=1))
  np.testing.assert_array_equal(run(mask, ids, reward, value), want)


def test_nothing_off_the_mask_is_looked_at():
  mask, ids, reward, value = arrays(512)
  clean = run(mask, ids, reward, value)
  dirty = [np.where(mask, x, np.float32(np.nan)) for x in (reward, value)]
  other = np.where(mask, ids, NUM - 1)
  np.testing.assert_array_equal(run(mask, other, *dirty), clean)
  assert not clean[~mask].any()


@pytest.mark.parametrize(
  'width, want', [(1024, 256), (8192, 256), (600, 200), (96, 96), (521, 521)]
)
def test_stretches_divide_the_width(width, want):
  assert scans.stretch(width) == want


def test_no_gradient():
  mask, ids, reward, value = arrays(20)
  level = levels.Level(jnp.asarray(ids), NUM)
  total = lambda reward: jnp.sum(
    scans.back(sum_and_last, mask, level, reward, jnp.asarray(value), carried=2)
  )
  assert not np.any(jax.grad(total)(jnp.asarray(reward)))
