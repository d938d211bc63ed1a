"""What numbers may be, and what is said of one that may not."""

import functools
import math

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from arl import ranges


def kernel(
  logp,
  *,
  low: ranges.Fraction,
  high: ranges.Positive = 2.0,
  steps: ranges.Count = 1,
  base: float = 2.0,
  name: str = '',
):
  return logp


def test_what_is_in_range_passes():
  for values in (
    {'low': 0.0},
    {'low': 1},  # a whole number is a number
    {'low': np.float32(0.5), 'high': 1e9},
    {'low': np.int64(1), 'steps': np.int32(3)},
    {'base': -7.0, 'name': 'what has no range may be anything'},
    {},
  ):
    ranges.check('who', kernel, values)


@pytest.mark.parametrize(
  'values, message',
  [
    ({'low': 1.5}, 'who: low is 1.5; it must be in [0, 1].'),
    ({'low': -1e-9}, 'who: low is -1e-09; it must be in [0, 1].'),
    ({'low': math.nan}, 'who: low is nan; it must be in [0, 1].'),
    ({'high': 0}, 'who: high is 0; it must be in (0, inf).'),
    ({'high': math.inf}, 'who: high is inf; it must be in (0, inf).'),
    ({'steps': 0}, 'who: steps is 0; it must be in [1, inf).'),
  ],
)
def test_what_is_outside_is_named_with_its_range(values, message):
  with pytest.raises(ValueError) as caught:
    ranges.check('who', kernel, values)
  assert str(caught.value) == message


@pytest.mark.parametrize(
  'values, message',
  [
    ({'low': '0.2'}, "who: low is '0.2'; it must be a number in [0, 1]."),
    ({'low': None}, 'who: low is None; it must be a number in [0, 1].'),
    ({'low': True}, 'who: low is True; it must be a number in [0, 1].'),
    ({'low': 0.5j}, 'who: low is 0.5j; it must be a number in [0, 1].'),
    (
      {'steps': 2.0},
      'who: steps is 2.0; it must be a whole number in [1, inf).',
    ),
    (
      {'steps': np.True_},
      'who: steps is np.True_; it must be a whole number in [1, inf).',
    ),
  ],
)
def test_what_is_no_number_is_another_error(values, message):
  with pytest.raises(TypeError) as caught:
    ranges.check('who', kernel, values)
  assert str(caught.value) == message


WRITTEN = {
  'Fraction': lambda x: 0 <= x <= 1,
  'UnderHalf': lambda x: 0 <= x < 0.5,
  'OpenFraction': lambda x: 0 < x < 1,
  'Positive': lambda x: 0 < x < math.inf,
  'NonNegative': lambda x: 0 <= x < math.inf,
  'OverOne': lambda x: 1 < x < math.inf,
  'Finite': math.isfinite,
  'Count': lambda x: 1 <= x < math.inf,
  'Lag': lambda x: 0 <= x < math.inf,
  'Freedom': lambda x: 0 <= x <= 1,
}
EDGES = st.sampled_from([0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, 5e-324])


@pytest.mark.parametrize('name', WRITTEN)
@hypothesis.given(EDGES | st.floats())
def test_a_range_holds_what_is_written(name, value):
  (wanted,) = getattr(ranges, name).__metadata__
  assert wanted.holds(value) == bool(WRITTEN[name](value))


def test_annotations_that_are_text_are_read_too():
  def late(logp, *, low: 'ranges.Fraction'):
    return logp

  with pytest.raises(ValueError, match='low is 2; it must be in'):
    ranges.check('who', late, {'low': 2})


def test_a_wrapped_function_keeps_its_ranges():
  @functools.wraps(kernel)
  def wrapped(*args, **kwargs):
    return kernel(*args, **kwargs)

  with pytest.raises(ValueError, match='low is 2; it must be in'):
    ranges.check('who', wrapped, {'low': 2})
