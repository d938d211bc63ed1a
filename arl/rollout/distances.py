"""How far what was said is from what else was said: edit distances."""

import itertools
from collections.abc import Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein

END = '\x00end'  # stands for each action that an episode which ended lacks


def normalized(left: Sequence[str], right: Sequence[str]) -> float:
  """Levenshtein's distance as a share of the longer one; 0 for two empty ones.

  Args:
    left: a text, whose symbols are characters, or a sequence of texts, each of
      which is a symbol.
    right: another of the same kind.
  """
  return float(Levenshtein.normalized_distance(left, right))


def pairwise(said: Sequence[Sequence[str]]) -> float:
  """The mean of `normalized` over all pairs; 0 for fewer than two."""
  pairs = list(itertools.combinations(said, 2))
  if not pairs:
    return 0.0
  return float(np.mean([normalized(left, right) for left, right in pairs]))


def prefixes(actions: Sequence[Sequence[str]], count: int) -> list[list[str]]:
  """The first `count` actions of each episode, END where it has fewer."""
  return [
    [*each[:count], *[END] * (count - len(each[:count]))] for each in actions
  ]
