"""Whether a formula is small enough to be worked out; text alone is read.

What is refused here would end at a deadline; to say so at once costs nothing.
"""

import re

_MOST_CHARACTERS, _DEEPEST, _MOST_DIGITS, _MOST_PARTS = 1000, 30, 1000, 50
_LARGEST_EXPONENT, _LARGEST_FACTORIAL = 10_000.0, 2_000.0
_DIGITS = re.compile(r'\d+(?:\.\d+)?')
_OPEN, _CLOSE = '{([', '})]'
_IGNORED = re.compile(r'\\(?:left|right|displaystyle|[,;! ])|\s')
_CHOICE = re.compile(r'\\[dt]?binom\{([^{}]*)\}')


def too_large(formula: str) -> str:
  """Why a formula is not worked out; '' if it may be.

  It is too long, nested too deeply, lists too much, or holds a number, a power,
  a factorial or a binomial coefficient of too many digits. Sums and products of
  numbers are taken for their largest: this finds most, and deadlines the rest.
  """
  if len(formula) > _MOST_CHARACTERS:
    return f'longer than {_MOST_CHARACTERS} characters'
  if formula.count(',') + formula.count(';') > _MOST_PARTS:
    return f'a list of more than {_MOST_PARTS}'
  if _depth(formula) > _DEEPEST:
    return f'nested more than {_DEEPEST} deep'
  text = _IGNORED.sub('', formula)
  if any(len(d) > _MOST_DIGITS for d in _DIGITS.findall(text)):
    return f'a number of more than {_MOST_DIGITS} digits'
  found = {'exponent': 0.0, 'factorial': 0.0}
  position = 0
  while position < len(text):
    _, position = _sequence(text, position, found)
  for top in _CHOICE.findall(text):
    found['factorial'] = max(found['factorial'], _number(top))
  if found['exponent'] > _LARGEST_EXPONENT:
    return f'an exponent beyond {_LARGEST_EXPONENT:g}'
  if found['factorial'] > _LARGEST_FACTORIAL:
    return f'a factorial beyond {_LARGEST_FACTORIAL:g}'
  return ''


def _depth(text: str) -> int:
  depth = deepest = 0
  for letter in text:
    depth += (letter in _OPEN) - (letter in _CLOSE)
    deepest = max(deepest, depth)
  return deepest


def _number(text: str) -> float:
  return max(map(float, _DIGITS.findall(text)), default=0.0)


def _sequence(text: str, position: int, found: dict) -> tuple[float, int]:
  """The largest value up to a closing bracket, and what comes after it."""
  largest = 0.0
  while position < len(text):
    if text[position] in _CLOSE:
      return largest, position + 1
    value, position = _powers(text, position, found)
    largest = max(largest, value)
  return largest, position


def _powers(text: str, position: int, found: dict) -> tuple[float, int]:
  """The value of one atom with its factorials and powers."""
  value, position = _atom(text, position, found)
  while position < len(text):
    if text[position] == '!' and not text.startswith('!=', position):
      found['factorial'] = max(found['factorial'], value)
      value, position = _power(value, value), position + 1
    elif text[position] == '^' or text.startswith('**', position):
      position += 1 if text[position] == '^' else 2
      exponent, position = _powers(text, position, found)
      found['exponent'] = max(found['exponent'], exponent)
      value = _power(value, exponent)
    else:
      break
  return value, position


def _atom(text: str, position: int, found: dict) -> tuple[float, int]:
  if position < len(text) and text[position] in _OPEN:
    return _sequence(text, position + 1, found)
  number = _DIGITS.match(text, position)
  if number:
    return float(number.group()), number.end()
  return 0.0, position + 1


def _power(base: float, exponent: float) -> float:
  try:
    return max(base, 1.0) ** exponent
  except OverflowError:
    return float('inf')
