"""What numbers a hyperparameter may be, said in the signature that takes it.

  def clip(log_ratio, advantage, *, low: ranges.Fraction, high: ranges.Positive)

A kernel or recipe that is given a number outside its range is refused when the
method is built, by name, before anything runs. Tools for types see floats.
"""

import functools
import numbers
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np


class Range(NamedTuple):
  """An interval as it is written: '[0, 1)', '(0, inf)'."""

  text: str

  def holds(self, value: float) -> bool:
    """Whether a number lies in it; nan lies in none."""
    low, high = (float(end) for end in self.text[1:-1].split(','))
    above = value >= low if self.text[0] == '[' else value > low
    below = value <= high if self.text[-1] == ']' else value < high
    return above and below


Fraction = Annotated[float, Range('[0, 1]')]
UnderHalf = Annotated[float, Range('[0, 0.5)')]
Decay = Annotated[float, Range('[0, 1)')]
OpenFraction = Annotated[float, Range('(0, 1)')]
Positive = Annotated[float, Range('(0, inf)')]
NonNegative = Annotated[float, Range('[0, inf)')]
OverOne = Annotated[float, Range('(1, inf)')]
Finite = Annotated[float, Range('(-inf, inf)')]
Count = Annotated[int, Range('[1, inf)')]
Lag = Annotated[int, Range('[0, inf)')]
Freedom = Annotated[int, Range('[0, 1]')]  # degrees of freedom lost: ddof


@functools.cache
def _of(function: Callable) -> dict[str, tuple[type, Range]]:
  """The kind and range of each parameter that has a range."""
  hints = typing.get_type_hints(function, include_extras=True)
  found = {}
  for name, hint in hints.items():
    for extra in getattr(hint, '__metadata__', ()):
      if isinstance(extra, Range):
        found[name] = (typing.get_args(hint)[0], extra)
  return found


def check(who: str, function: Callable, values: Mapping[str, Any]) -> None:
  """Refuses values outside the ranges that a function's signature gives.

  Args:
    who: names it in the message.
    function: has the parameters.
    values: by parameter; those without a range may be anything.

  Raises:
    TypeError: no number, or a fraction where a whole number is wanted.
    ValueError: outside the range.
  """
  for name, (kind, wanted) in _of(function).items():
    if name not in values:
      continue
    value = values[name]
    kinds = numbers.Integral if kind is int else numbers.Real
    if isinstance(value, bool | np.bool_) or not isinstance(value, kinds):
      article = 'a whole number' if kind is int else 'a number'
      raise TypeError(
        f'{who}: {name} is {value!r}; it must be {article} in {wanted.text}.'
      )
    if not wanted.holds(float(value)):
      raise ValueError(
        f'{who}: {name} is {value}; it must be in {wanted.text}.'
      )
