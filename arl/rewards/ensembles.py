"""Several reward models as one, that is hard to fool (arXiv:2310.02743).

Scores are [models, n], each model's in the same units: standardize them on a
common set first.
"""

import numpy as np

from arl.rewards import verdict


def mean(scores: np.ndarray) -> np.ndarray:
  """The mean over the models, [n]."""
  return np.mean(scores, axis=0)


def worst(scores: np.ndarray) -> np.ndarray:
  """The smallest, [n]: worst-case optimization."""
  return np.min(scores, axis=0)


def less_variance(scores: np.ndarray, *, coef: float = 0.5) -> np.ndarray:
  """mean - coef * variance, [n]: uncertainty-weighted optimization."""
  return np.mean(scores, axis=0) - coef * np.var(scores, axis=0)


def less_deviation(scores: np.ndarray, *, coef: float = 1.0) -> np.ndarray:
  """mean - coef * standard deviation, [n]; as surveys have it."""
  return np.mean(scores, axis=0) - coef * np.std(scores, axis=0)


def joined(verdicts: list[list[verdict.Verdict]], combine) -> list:
  """Verdicts of several scorers as one a text.

  Args:
    verdicts: a list a scorer, with one verdict a text.
    combine: scores [models, 1] -> [1], one of this module.

  Returns:
    One verdict a text; an error where any scorer failed.
  """
  made = []
  for each in zip(*verdicts, strict=True):
    if len(found := verdict.scores(each)) < len(each):
      failed = next(v for v in each if v.score is None)
      made.append(verdict.error(f'a scorer failed: {failed.detail}'))
    else:
      made.append(verdict.scored(combine(np.asarray(found)[:, None])[0]))
  return made
