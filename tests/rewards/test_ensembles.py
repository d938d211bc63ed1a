"""Several reward models as one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl.rewards import ensembles, verdict

SCORES = st.lists(st.floats(-5, 5), min_size=1, max_size=6)


@given(SCORES)
def test_disagreement_never_pays(scores):
  column = np.array(scores)[:, None]
  mean = ensembles.mean(column)[0]
  assert ensembles.worst(column)[0] <= mean + 1e-9
  assert ensembles.less_variance(column)[0] <= mean + 1e-9
  assert ensembles.less_deviation(column)[0] <= mean + 1e-9


@pytest.mark.parametrize(
  'combine', [ensembles.mean, ensembles.worst, ensembles.less_variance]
)
def test_one_model_is_itself(combine):
  np.testing.assert_array_equal(combine(np.array([[0.3, 0.5]])), [0.3, 0.5])


def test_verdicts_are_joined():
  first = [verdict.scored(0.2), verdict.scored(0.5)]
  second = [verdict.scored(0.4), verdict.timeout('late')]
  made = ensembles.joined([first, second], ensembles.worst)
  assert made == [verdict.scored(0.2), verdict.error('a scorer failed: late')]
