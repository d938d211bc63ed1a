"""Shaping never outweighs the outcome."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl.rewards import composite

TERM = st.floats(-100, 100)
TERMS = st.fixed_dictionaries({}, optional=dict.fromkeys(
  composite.WEIGHTS, TERM
))  # fmt: skip


@given(TERMS, TERMS, st.floats(0, 0.5), st.floats(0.1, 10))
def test_no_failure_exceeds_a_success(good, bad, cap, weight):
  keywords = {'cap': cap, 'outcome_weight': weight}
  success = composite.capped(1, good, **keywords)
  failure = composite.capped(0, bad, **keywords)
  assert success.total >= failure.total - 1e-12
  assert abs(success.shaping) <= cap * weight


def test_parts_are_told_apart():
  made = composite.capped(1, {'format': 1, 'length': 20})
  assert made.parts == pytest.approx(
    {'format': 0.2, 'length': -1.0, 'outcome': 1.0}
  )
  assert made.shaping == -0.5
  assert made.total == 0.5


@pytest.mark.parametrize('cap', [-0.1, 0.6])
def test_the_cap_has_a_range(cap):
  with pytest.raises(ValueError, match='cap is .*give 0 to 0.5'):
    composite.capped(1, {}, cap=cap)


def test_a_term_needs_a_weight():
  with pytest.raises(ValueError, match='no weight for style; add it'):
    composite.capped(1, {'style': 1})


def test_hybrid():
  assert composite.hybrid(1, 0.5, 0) == pytest.approx(0.7)
