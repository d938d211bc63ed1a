"""BM25: which texts of a collection fit a query, by words alone.

The score of Okapi BM25 with the inverse document frequency of Lucene, which is
never negative. Equal scores keep the order of the collection, so a search is a
pure function.
"""

import collections
import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

_K1, _B = 1.2, 0.75
_LONGEST = 300  # characters of a query that are read
_WORD = re.compile(r'[a-z0-9]+')


class Index(NamedTuple):
  """A collection that can be searched.

  Attributes:
    size: how many texts there are.
    scores: by word: the texts it stands in, and what it adds to their scores.
  """

  size: int
  scores: Mapping[str, tuple[np.ndarray, np.ndarray]]


def words(text: str) -> list[str]:
  """The words of a text, in lower case."""
  return _WORD.findall(text.lower())


def build(texts: Sequence[str]) -> Index:
  """Indexes texts; results name them by their place."""
  counts = [collections.Counter(words(text)) for text in texts]
  lengths = np.array([count.total() for count in counts], float)
  norms = _K1 * (1 - _B + _B * lengths / max(lengths.mean(), 1.0))
  places = collections.defaultdict(list)
  for place, count in enumerate(counts):
    for word in count:
      places[word].append(place)
  scores = {}
  for word, found in places.items():
    at = np.array(found)
    times = np.array([counts[place][word] for place in found])
    rare = math.log1p((len(texts) - len(at) + 0.5) / (len(at) + 0.5))
    scores[word] = at, rare * times * (_K1 + 1) / (times + norms[at])
  return Index(len(texts), scores)


def top(index: Index, query: str, most: int) -> list[int]:
  """The places of the best texts, best first; only those that share a word."""
  scores = np.zeros(index.size)
  for word in sorted(set(words(query[:_LONGEST])) & index.scores.keys()):
    at, added = index.scores[word]
    scores[at] += added
  hits = np.flatnonzero(scores)
  best = np.argsort(-scores[hits], kind='stable')[:most]
  return hits[best].tolist()
