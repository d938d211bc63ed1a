"""Group-size arithmetic: literal numbers, enumeration."""

import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest
import worked

from arl import levels
from arl.kernels import advantages, groups


def test_by_hand():
  assert groups.deviation(1, 4) == pytest.approx(0.433013, abs=1e-6)
  assert groups.chance_unanimous(0.25, 4) == pytest.approx(0.320312, abs=1e-6)
  assert groups.smallest_size(0.5, 0.05) == pytest.approx(10)
  assert groups.smallest_size(1.0, 0.05) == math.inf


def test_unanimous_groups_have_no_deviation():
  assert groups.deviation(0, 4) == groups.deviation(4, 4) == 0
  assert groups.chance_unanimous(0.0, 4) == groups.chance_unanimous(1, 4) == 1


@pytest.mark.parametrize('rewards', [*itertools.product((0.0, 1.0), repeat=4)])
def test_the_identity_of_advantages(rewards):
  columns = worked.mask(), worked.sequences(), worked.one_group()
  once = np.cumsum(worked.LENGTHS) - 1
  mask = np.asarray(worked.mask())

  def mean_size(kernel, **settings):
    got = kernel(worked.at_end(rewards), *columns, **settings)
    return np.mean(np.abs(np.asarray(got)[mask][once]))

  sigma = groups.deviation(int(sum(rewards)), 4)
  got = mean_size(advantages.group_center)
  np.testing.assert_allclose(got, 2 * sigma**2, rtol=1e-6)
  got = mean_size(advantages.group_normalize, ddof=0, eps=1e-8)
  np.testing.assert_allclose(got, 2 * sigma, rtol=1e-6)


@pytest.mark.parametrize(
  'kernel',
  [
    advantages.group_center,
    advantages.group_normalize,
    advantages.leave_one_out,
    advantages.sign_balanced,
    advantages.pair_sign,
    advantages.best_of_group,
    advantages.length_weighted,
  ],
)
def test_groups_of_different_sizes_are_credited_by_themselves(kernel):
  """Strategies give tasks different numbers of rollouts."""
  rng, sizes = np.random.default_rng(0), (2, 4, 7, 1)
  total, width = sum(sizes), 3
  rewards = np.zeros((total, width), np.float32)
  rewards[:, -1] = rng.integers(0, 3, total)
  group = np.repeat(np.arange(len(sizes)), sizes)

  def credited(rows):
    number, (n, members) = len(sizes), (len(rows), group[rows])
    column = lambda x: jnp.asarray(np.repeat(x[:, None], width, 1), jnp.int32)
    return kernel(
      jnp.asarray(rewards[rows]),
      jnp.ones((n, width), bool),
      levels.level(column(np.arange(n)), n),
      levels.level(column(members), number),
    )

  together = credited(np.arange(total))
  assert np.any(together != 0)
  for number in range(len(sizes)):
    rows = np.flatnonzero(group == number)
    np.testing.assert_allclose(
      together[rows], credited(rows), rtol=1e-5, atol=1e-6
    )
