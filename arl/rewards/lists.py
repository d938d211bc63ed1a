"""Formulas that list others: pairs, intervals, sets, and several answers."""

import re
from typing import NamedTuple

_OPEN, _CLOSE = '([{', ')]}'
_THOUSANDS = re.compile(r'[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?')
# With these around, what looks like a list says one thing.
_RELATION = re.compile(r'[=<>:|]|\\(?:leq?|geq?|neq?|mid|in|colon)(?![a-z])')
_SET = '{}'


class Listed(NamedTuple):
  """Formulas in a row.

  Attributes:
    brackets: around them, as '(]'; '{}' for a set, and for none: then the order
      means nothing.
    parts: the formulas.
  """

  brackets: str
  parts: list[str]

  @property
  def ordered(self) -> bool:
    """Whether the order of the parts means something."""
    return self.brackets != _SET


def read(formula: str) -> Listed | None:
  r"""What a formula lists; None if it is no list.

  `1,250` is a number, and `(1,250)` a pair. With an equation or the like in it
  it is no list: `k=5,6` says two things of one variable.
  """
  if _RELATION.search(formula) or _THOUSANDS.fullmatch(formula):
    return None
  parts = _split(formula)
  if len(parts) > 1:
    return Listed(_SET, parts)
  start, end = (2, -2) if formula.startswith('\\{') else (1, -1)
  around = formula[start - 1 : start] + formula[end:][-1:]
  if len(formula) < 3 or not _one_pair(formula) or formula[0] == '{':
    return None
  parts = _split(formula[start:end])
  if len(parts) > 1 or around == _SET:
    return Listed(around, parts)
  return None


def _split(formula: str) -> list[str]:
  """The parts between commas and semicolons that no bracket holds."""
  parts, start, depth = [], 0, 0
  for i, letter in enumerate(formula):
    depth += (letter in _OPEN) - (letter in _CLOSE)
    if letter in ',;' and not depth and formula[i - 1 : i] != '\\':
      parts.append(formula[start:i].strip())
      start = i + 1
  return [*parts, formula[start:].strip()]


def _one_pair(formula: str) -> bool:
  """Whether the first bracket is what the last character closes."""
  depth = 0
  for i, letter in enumerate(formula):
    depth += (letter in _OPEN) - (letter in _CLOSE)
    if not depth and not (i == 0 and letter == '\\'):
      return i == len(formula) - 1
  return False
