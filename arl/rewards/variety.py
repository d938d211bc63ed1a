"""How much of a batch of texts says the same."""

import collections
import math
from collections.abc import Sequence

import numpy as np
from scipy.cluster import hierarchy
from scipy.spatial import distance

_LONGEST = 4
_NONE = 0.1  # what an order of which nothing agrees counts as


def _grams(text: str) -> list[collections.Counter]:
  words = text.split()
  return [
    collections.Counter(zip(*(words[i:] for i in range(n))))
    for n in range(1, _LONGEST + 1)
  ]


def bleu(text: str, reference: str) -> float:
  """BLEU of one text against one reference, of words between spaces.

  Runs of one to four words count alike; a length of run of which nothing agrees
  counts as a tenth of one (the first smoothing of Chen and Cherry, 2014).
  """
  return _bleu(_grams(text), _grams(reference))


def _bleu(ours: list, theirs: list) -> float:
  length, wanted = ours[0].total(), theirs[0].total()
  if not (ours[0] & theirs[0]):
    return 0.0
  logs = [
    math.log(((a & b).total() or _NONE) / max(a.total(), 1))
    for a, b in zip(ours, theirs)
  ]
  brevity = min(0.0, 1 - wanted / length)
  return math.exp(brevity + sum(logs) / _LONGEST)


def shares(texts: Sequence[str], *, threshold: float = 0.5) -> np.ndarray:
  """For each text the share of the batch that is like it.

  The size of its cluster, where texts join while the mean of 1 - BLEU between
  clusters is at most the threshold: R-Zero's penalty for repetition
  (arXiv:2508.05004), as its code. Takes time in the square of their number.

  Returns:
    [n], 1 / n for a text like no other.
  """
  if len(texts) < 2:
    return np.ones(len(texts))
  grams = [_grams(text) for text in texts]
  apart = np.zeros((len(texts), len(texts)))
  for i, ours in enumerate(grams):
    for j in range(i + 1, len(grams)):
      same = texts[i] == texts[j]
      apart[i, j] = apart[j, i] = 0 if same else 1 - _bleu(ours, grams[j])
  joined = hierarchy.linkage(distance.squareform(apart), 'average')
  cluster = hierarchy.fcluster(joined, threshold, 'distance')
  return np.bincount(cluster)[cluster] / len(texts)
