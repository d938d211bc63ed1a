"""Small worlds made up from a seed, told in passages that can be searched.

Two styles. `articles`: people, places and firms with names, two short passages
about each, in English. `letters`: names of three letters and one fact a
passage, `abc boss xyz`, for models that spell one character at a time. What
holds in a world is drawn from the seed, so nothing of it can be known before.
"""

import functools
import random
import string
from collections.abc import Callable, Mapping
from typing import NamedTuple

from arl.envs import bm25

STYLES = ('letters', 'articles')

_WORDS = ('boss', 'home', 'twin', 'firm')
# Kind -> relations: name, kind of the value, word to look it up by, how told.
_ARTICLES = {
  'person': (
    ('birthplace', 'place', 'born', 'born in {}'),
    ('birth year', 'year', 'birth', 'birth year {}'),
    ('employer', 'firm', 'works', 'works for {}'),
    ('teacher', 'person', 'taught', 'was taught by {}'),
  ),
  'place': (
    ('country', 'country', 'lies', 'lies in {}'),
    ('river', 'river', 'river', 'on the {}'),
    ('mayor', 'person', 'mayor', 'its mayor is {}'),
    ('founding year', 'year', 'settled', 'settled in {}'),
  ),
  'firm': (
    ('founder', 'person', 'founded', 'founded by {}'),
    ('opening year', 'year', 'opened', 'opened in {}'),
    ('seat', 'place', 'seat', 'has its seat in {}'),
    ('product', 'product', 'makes', 'makes {}'),
  ),
}
_PRODUCTS = tuple(
  f'{what} {of}'
  for what in ('glass', 'steel', 'paper', 'copper', 'wool', 'oak', 'clay')
  for of in ('lamps', 'bells', 'boats', 'clocks', 'pipes', 'toys', 'tiles')
)


class Fact(NamedTuple):
  """What holds of something: the value, and the passage that tells it."""

  value: str
  passage: int


class Corpus(NamedTuple):
  """A world and the passages that tell it.

  Attributes:
    passages: what is shown of each.
    lookup: searches all passages, titles counted twice.
    relations: by name of a thing: what can be asked of it.
    facts: by (name, relation).
    ask: (name, relations) -> the question that follows them in order.
    query: (name, relation) -> a query that finds the fact.
  """

  passages: tuple[str, ...]
  lookup: bm25.Index
  relations: Mapping[str, tuple[str, ...]]
  facts: Mapping[tuple[str, str], Fact]
  ask: Callable[[str, tuple[str, ...]], str]
  query: Callable[[str, str], str]


@functools.lru_cache(maxsize=8)
def make(style: str, entities: int, seed: int) -> Corpus:
  """The world of a seed with so many things in it."""
  rng = random.Random(f'search/{style}/{entities}/{seed}')
  return {'letters': _letters, 'articles': _articles}[style](entities, rng)


def _letters(entities: int, rng: random.Random) -> Corpus:
  letters = string.ascii_lowercase
  names = [a + b + c for a in letters for b in letters for c in letters]
  names = rng.sample(names, entities)
  shown: list[str] = []
  facts = {}
  for name in names:
    for relation in _WORDS:
      value = rng.choice(names)
      while value == name:
        value = rng.choice(names)
      facts[name, relation] = Fact(value, len(shown))
      shown.append(f'{name} {relation} {value}')
  lookup = bm25.build([f'{text[:3]} {text}' for text in shown])
  return Corpus(
    tuple(shown),
    lookup,
    dict.fromkeys(names, _WORDS),
    facts,
    lambda name, relations: f'{name} {" ".join(relations)}?',
    lambda name, relation: f'{name} {relation}',
  )


def _articles(entities: int, rng: random.Random) -> Corpus:
  values = _values(entities, rng)
  shown: list[str] = []
  titles, facts, relations = [], {}, {}
  for kind, rows in _ARTICLES.items():
    for name in values[kind]:
      relations[name] = tuple(relation for relation, *_ in rows)
      for half in (rows[:2], rows[2:]):
        told = []
        for relation, of, _, how in half:
          value = rng.choice(values[of])
          while value == name:
            value = rng.choice(values[of])
          facts[name, relation] = Fact(value, len(shown))
          told.append(how.format(value))
        shown.append(f'{name}: {"; ".join(told)}.')
        titles.append(name)
  return Corpus(
    tuple(shown),
    bm25.build([f'{title} {text}' for title, text in zip(titles, shown)]),
    relations,
    facts,
    _in_english,
    lambda name, relation: f'{name} {_CLUES[relation]}',
  )


_CLUES = {
  relation: clue for rows in _ARTICLES.values() for relation, _, clue, _ in rows
}


def _values(entities: int, rng: random.Random) -> dict[str, list[str]]:
  """Names by kind: three fifths people, a fifth each of places and firms."""
  people, places = entities * 3 // 5, entities // 5
  words = _invented(people // 2 + places * 2 + 60, rng)
  take = lambda count: [words.pop() for _ in range(count)]
  first, last = take(40), take(people // 2)
  pairs = [f'{a} {b}' for b in last for a in rng.sample(first, 4)]
  return {
    'country': take(12),
    'year': [str(year) for year in range(1800, 2000)],
    'river': [f'{word} river' for word in take(8)],
    'product': list(_PRODUCTS),
    'place': take(places),
    'firm': [
      f'{word} {rng.choice(("glass", "group", "trust", "mills"))}'
      for word in take(entities - people - places)
    ],
    'person': rng.sample(pairs, people),
  }


def _invented(count: int, rng: random.Random) -> list[str]:
  """So many different words of two or three syllables, in capitals."""
  found: dict[str, None] = {}
  while len(found) < count:
    parts = [
      rng.choice('bdfgklmnprstvz') + rng.choice('aeiou')
      for _ in range(rng.randint(2, 3))
    ]
    found[''.join(parts).capitalize() + rng.choice('lnrstx')] = None
  return list(found)


def _in_english(name: str, relations: tuple[str, ...]) -> str:
  asked = name
  for relation in relations:
    asked = f'the {relation} of {asked}'
  return f'What is {asked}?'
