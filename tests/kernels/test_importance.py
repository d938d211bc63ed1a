"""Weights of tokens: literal numbers, plain loops, sides that are empty."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worked

from arl import kinds, levels
from arl.kernels import importance

KINDS = (
  kinds.FORMAT,
  kinds.THINK,
  kinds.THINK,
  kinds.NAME,
  kinds.ARGUMENTS,
  kinds.OTHER,
)


def _by_kind(rows, iteration, mask=None, seq=None, **settings):
  kind = jnp.asarray(rows, jnp.int32)
  mask = jnp.ones(kind.shape, bool) if mask is None else jnp.asarray(mask)
  kernel = jax.jit(functools.partial(importance.by_kind, **settings))
  seq = seq or worked.sequences(*kind.shape)
  return kernel(kind, jnp.asarray(iteration), mask, seq)


@pytest.mark.parametrize('iteration', [100, 100.0])
def test_kinds_by_hand(iteration):
  got = _by_kind([KINDS], iteration)
  want = [[1.086957, 0.869565, 0.869565, 1.304348, 0.869565, 0]]
  np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(
  'iteration, think, arguments',
  [(0, 0.6, 0.6), (150, 0.9, 0.9), (250, 1.0, 1.1), (10_000, 1.0, 1.2)],
)
def test_the_schedule_grows_to_its_limits(iteration, think, arguments):
  want = np.asarray([[1.0, think, think, 1.2, arguments, 0]])
  want /= np.mean(want[want > 0])
  np.testing.assert_allclose(_by_kind([KINDS], iteration), want, rtol=1e-6)


def test_each_sequence_has_mean_one_and_nothing_else_counts():
  rows = [[1, 3, 9, 2, 4, 4], [0, 0, 0, 0, 0, 0], [-7, 2, 1, 99, 99, 99]]
  mask = [[1, 1, 0, 1, 1, 1], [1] * 6, [0, 1, 1, 0, 0, 0]]
  got = _by_kind(rows, 0, np.asarray(mask, bool))
  total = 1.0 + 1.2 + 0.6 * 3
  np.testing.assert_allclose(
    got,
    [
      np.asarray([1.0, 1.2, 0, 0.6, 0.6, 0.6]) * 5 / total,
      [0] * 6,
      [0, 0.75, 1.25, 0, 0, 0],
    ],
    rtol=1e-6,
  )


def test_packed_sequences_are_weighed_apart():
  ids = levels.Level(jnp.asarray([[0, 0, 0, 1, 1, 1]]), 2)
  got = _by_kind([[1, 2, 0, 3, 3, 2]], 0, seq=ids)
  want = _by_kind([[1, 2, 0], [3, 3, 2]], 0)
  np.testing.assert_allclose(got, want.reshape(1, 6), rtol=1e-6)


FEATURES = ((1.0, 0.0), (0.2, 0.9), (0.1, 1.0), (-0.8, 0.3))
SIGNS = (1.0, 1.0, -1.0, -1.0)


def _tell_apart(features, advantage, mask=None, **settings):
  advantage = jnp.asarray(advantage, jnp.float32)
  mask = jnp.ones(advantage.shape, bool) if mask is None else mask
  kernel = functools.partial(importance.discriminative, **settings)
  features = jnp.asarray(features, jnp.float32)
  return jax.jit(kernel)(features, advantage, mask)


def test_sides_by_hand():
  got = _tell_apart([FEATURES], [SIGNS], rounds=0)
  want = [[1.152207, 1.000265, 1.024021, 1.141215]]
  np.testing.assert_allclose(got, want, rtol=1e-6)


def _slow(features, advantage, rounds):
  """Lambda of tokens [n], from the formula."""
  n = len(advantage)
  alpha = [1.0] * n
  sides = {s: [i for i in range(n) if s * advantage[i] > 0] for s in (1, -1)}
  for _ in range(rounds + 1):
    mean = {
      s: sum(abs(advantage[i]) * alpha[i] * features[i] for i in side)
      / sum(abs(advantage[i]) * alpha[i] for i in side)
      for s, side in sides.items()
    }
    for s, side in sides.items():
      gap = [
        np.sum((features[i] - mean[-s]) ** 2)
        - np.sum((features[i] - mean[s]) ** 2)
        for i in side
      ]
      for i, each in zip(side, gap):
        alpha[i] = 1 / (1 + np.exp(-each / np.mean(np.abs(gap))))
  return [0.8 + 0.4 * a if x else 1.0 for a, x in zip(alpha, advantage)]


@pytest.mark.parametrize('rounds', [0, 1, 3])
def test_rounds_equal_a_plain_loop(rounds):
  rng = np.random.default_rng(rounds)
  mask = np.asarray([[1, 1, 0, 1, 1, 1], [1, 0, 1, 1, 1, 0]], bool)
  features = rng.normal(size=(2, 6, 3)).astype(np.float32)
  advantage = rng.normal(size=(2, 6)).astype(np.float32)
  advantage[0, 4] = 0
  want = np.zeros((2, 6))
  want[mask] = _slow(features[mask], advantage[mask], rounds)
  features[~mask], advantage[~mask] = np.nan, np.nan
  got = _tell_apart(features, advantage, jnp.asarray(mask), rounds=rounds)
  np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize('signs', [(1, 2, 3, 1), (-1, -1, -2, 0), (0,) * 4])
def test_a_side_that_is_empty_leaves_all_at_one(signs):
  got = _tell_apart([FEATURES], [signs])
  np.testing.assert_array_equal(got, np.ones((1, 4)))


def test_features_that_agree_tell_nothing():
  got = _tell_apart(np.full((1, 4, 2), 0.3), [SIGNS])
  np.testing.assert_allclose(got, np.ones((1, 4)), rtol=1e-6)


def test_no_gradient_passes():
  features, advantage = jnp.asarray([FEATURES]), jnp.asarray([SIGNS])
  mask = jnp.asarray([[True, True, True, False]])

  def total(features, advantage):
    return jnp.sum(importance.discriminative(features, advantage, mask))

  for got in jax.grad(total, (0, 1))(features, advantage):
    np.testing.assert_array_equal(got, np.zeros(got.shape))
