"""Group-size arithmetic: literal numbers, enumeration."""

import itertools
import math

import numpy as np
import pytest
import worked

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
