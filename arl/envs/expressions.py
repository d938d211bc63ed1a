"""Arithmetic expressions as text: read, worked out exactly, and found.

Whole numbers, + - * / and brackets. Nothing is evaluated as code, and values
are fractions, so that (1/3)*3 is 1.
"""

import fractions
import functools
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

_LONGEST, _DEEPEST = 60, 12
_TOKEN = re.compile(r' *([0-9]{1,9}|[-+*/()])')


class Fault(NamedTuple):
  """What was wrong with an expression, as a sentence for the policy."""

  error: str


class Worked(NamedTuple):
  """What an expression says.

  Attributes:
    value: exactly.
    numbers: that stand in it, in order.
  """

  value: fractions.Fraction
  numbers: tuple[int, ...]


def work_out(text: str) -> Worked | Fault:
  """Reads an expression and works it out."""
  if len(text) > _LONGEST:
    return Fault(f'error: longer than {_LONGEST} characters')
  tokens, end = [], 0
  text = text.rstrip(' ')
  while end < len(text):
    token = _TOKEN.match(text, end)
    if not token:
      return Fault('error: use numbers, + - * / and brackets')
    tokens.append(token[1])
    end = token.end()
  try:
    value, position = _sum(tokens, 0, 0)
  except ZeroDivisionError:
    return Fault('error: division by zero')
  except _Unreadable:
    position = -1
  if position != len(tokens):
    return Fault('error: not a whole expression')
  return Worked(value, tuple(int(token) for token in tokens if token.isdigit()))


_Parsed = tuple[fractions.Fraction, int]  # a value, and where it ends


class _Unreadable(Exception):
  pass


def _sum(tokens: Sequence[str], at: int, depth: int) -> _Parsed:
  value, at = _product(tokens, at, depth)
  while at < len(tokens) and tokens[at] in '+-':
    other, end = _product(tokens, at + 1, depth)
    value, at = value + other if tokens[at] == '+' else value - other, end
  return value, at


def _product(tokens: Sequence[str], at: int, depth: int) -> _Parsed:
  value, at = _factor(tokens, at, depth)
  while at < len(tokens) and tokens[at] in '*/':
    other, end = _factor(tokens, at + 1, depth)
    value, at = value * other if tokens[at] == '*' else value / other, end
  return value, at


def _factor(tokens: Sequence[str], at: int, depth: int) -> _Parsed:
  if at < len(tokens) and tokens[at].isdigit():
    return fractions.Fraction(int(tokens[at])), at + 1
  if at < len(tokens) and tokens[at] == '(' and depth < _DEEPEST:
    value, end = _sum(tokens, at + 1, depth + 1)
    if end < len(tokens) and tokens[end] == ')':
      return value, end + 1
  raise _Unreadable


def combined(
  numbers: Sequence[int], symbols: str, pick: Callable[[int], int]
) -> str:
  """An expression that uses each number once, in a way that `pick` decides.

  Args:
    numbers: to be combined.
    symbols: the operators to choose from.
    pick: n -> one of 0 to n - 1.
  """
  parts = [str(number) for number in numbers]
  while len(parts) > 1:
    left = parts.pop(pick(len(parts)))
    right = parts.pop(pick(len(parts)))
    parts.append(_join(left, symbols[pick(len(symbols))], right))
  return parts[0]


def solve(numbers: Sequence[int], target: int) -> str | None:
  """An expression that uses each number once and is worth the target.

  By search over all of them: None says that there is none. Six numbers take
  a quarter of a second, five a hundredth.
  """
  wanted = fractions.Fraction(target)
  if len(numbers) == 1:
    return str(target) if numbers[0] == target else None
  for left, right in _splits(tuple(sorted(numbers))):
    found = _reached(right)
    for value, text in _reached(left).items():
      needed = {'+': wanted - value, '-': value - wanted}
      if value:
        needed['*'] = wanted / value
      if wanted:
        needed['/'] = value / wanted
      for symbol, other in needed.items():
        if other in found and not (symbol == '/' and other == 0):
          return _join(text, symbol, found[other])
  return None


@functools.lru_cache(maxsize=512)
def _reached(numbers: tuple[int, ...]) -> Mapping[fractions.Fraction, str]:
  """Every value of an expression that uses each number once, and one such."""
  if len(numbers) == 1:
    return {fractions.Fraction(numbers[0]): str(numbers[0])}
  reached: dict[fractions.Fraction, str] = {}
  for left, right in _splits(numbers):
    pairs = itertools.product(_reached(left).items(), _reached(right).items())
    for (a, first), (b, second) in pairs:
      values = {'+': a + b, '-': a - b, '*': a * b}
      if b:
        values['/'] = a / b
      for symbol, value in values.items():
        reached.setdefault(value, _join(first, symbol, second))
  return reached


def _splits(
  numbers: tuple[int, ...],
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
  """Every way to part numbers into two, not empty, in both orders."""
  for marks in range(1, 2 ** len(numbers) - 1):
    sides: tuple[list[int], list[int]] = [], []
    for place, number in enumerate(numbers):
      sides[marks >> place & 1].append(number)
    yield tuple(sides[0]), tuple(sides[1])


def _join(left: str, symbol: str, right: str) -> str:
  return f'{_bracketed(left)}{symbol}{_bracketed(right)}'


def _bracketed(text: str) -> str:
  return text if text.isdigit() else f'({text})'
