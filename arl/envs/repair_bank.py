"""Small functions, how each can be broken, and arguments to try them with."""

import random
from collections.abc import Callable
from typing import Any, NamedTuple


class Function(NamedTuple):
  """A function of a repository.

  Attributes:
    name: of it.
    source: the right one; it ends in a line's end.
    breaks: (right, wrong) texts; the right one occurs once in the source.
    draw: random.Random -> arguments.
  """

  name: str
  source: str
  breaks: tuple[tuple[str, str], ...]
  draw: Callable[[random.Random], list[Any]]


def _numbers(rng: random.Random) -> list[int]:
  return [rng.randint(-9, 9) for _ in range(rng.randint(2, 6))]


def _word(rng: random.Random) -> str:
  half = ''.join(rng.choices('abc', k=rng.randint(1, 3)))
  return half + (half[::-1] if rng.random() < 0.5 else 'ab')


def _text(rng: random.Random) -> str:
  return ' '.join(rng.choices(('red', 'blue', 'sea'), k=rng.randint(1, 6)))


BANK = (
  Function(
    'total',
    'def total(prices, tax):\n  return sum(prices) + tax\n',
    (('+ tax', '- tax'), ('sum(prices)', 'max(prices)')),
    lambda rng: [_numbers(rng), rng.randint(1, 9)],
  ),
  Function(
    'largest',
    'def largest(xs):\n  best = xs[0]\n  for x in xs:\n    if x > best:\n'
    '      best = x\n  return best\n',
    (('x > best', 'x < best'), ('xs[0]', '0')),
    lambda rng: [[x - 10 for x in _numbers(rng)]],
  ),
  Function(
    'evens',
    'def evens(xs):\n  return [x for x in xs if x % 2 == 0]\n',
    (('== 0', '== 1'), ('% 2', '// 2')),
    lambda rng: [_numbers(rng)],
  ),
  Function(
    'clamp',
    'def clamp(x, low, high):\n  return max(low, min(x, high))\n',
    (
      ('max(low, min(x, high))', 'min(low, max(x, high))'),
      ('x, high))', 'x, low))'),
    ),
    lambda rng: [rng.randint(-20, 20), rng.randint(-9, 0), rng.randint(1, 9)],
  ),
  Function(
    'palindrome',
    'def palindrome(text):\n  return text == text[::-1]\n',
    (('==', '!='), ('[::-1]', '[::1]')),
    lambda rng: [_word(rng)],
  ),
  Function(
    'mean',
    'def mean(xs):\n  return sum(xs) / len(xs)\n',
    (('len(xs)', '(len(xs) - 1)'), ('/', '//')),
    lambda rng: [_numbers(rng)],
  ),
  Function(
    'head',
    'def head(xs, n):\n  return xs[:n]\n',
    (('[:n]', '[:n - 1]'), ('[:n]', '[n:]')),
    lambda rng: [_numbers(rng), rng.randint(1, 3)],
  ),
  Function(
    'factorial',
    'def factorial(n):\n  made = 1\n  for i in range(1, n + 1):\n'
    '    made *= i\n  return made\n',
    (('n + 1', 'n'), ('*=', '+=')),
    lambda rng: [rng.randint(2, 9)],
  ),
  Function(
    'count_words',
    "def count_words(text):\n  return len(text.split(' '))\n",
    (("split(' ')", "split('e')"), ('len(', '1 + len(')),
    lambda rng: [_text(rng)],
  ),
  Function(
    'dot',
    'def dot(a, b):\n  return sum(x * y for x, y in zip(a, b))\n',
    (('x * y', 'x + y'), ('zip(a, b)', 'zip(a, a)')),
    lambda rng: [[rng.randint(-9, 9) for _ in range(3)] for _ in range(2)],
  ),
  Function(
    'unique',
    'def unique(xs):\n  seen = []\n  for x in xs:\n    if x not in seen:\n'
    '      seen.append(x)\n  return seen\n',
    (('not in', 'in'), ('seen.append(x)', 'seen = [x]')),
    lambda rng: [rng.choices(range(4), k=6)],
  ),
  Function(
    'gcd',
    'def gcd(a, b):\n  while b:\n    a, b = b, a % b\n  return a\n',
    (('return a', 'return b'), ('a % b', 'a // b')),
    lambda rng: [rng.randint(2, 60), rng.randint(2, 60)],
  ),
)
BY_NAME = {one.name: one for one in BANK}


def results(source: str, name: str, arguments: list[list[Any]]) -> list[Any]:
  """What a function of a source gives, which is ours: right, or broken."""
  names: dict[str, Any] = {}
  exec(source, names)
  return [names[name](*one) for one in arguments]


def right(name: str, arguments: list[list[Any]]) -> list[Any]:
  """What the right function gives."""
  return results(BY_NAME[name].source, name, arguments)
