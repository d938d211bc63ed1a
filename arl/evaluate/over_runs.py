"""How methods compare over a few runs each: the statistics of rliable.

Agarwal et al., "Deep reinforcement learning at the edge of the statistical
precipice" (arXiv:2108.13264): interquartile means, performance profiles and
probabilities of improvement, with intervals by a stratified bootstrap.

A run of a method has a score on every kind of task, the share that it solved
of the held-out tasks of that kind. A resample draws runs with return, each with
all its scores, and then the tasks of each kind anew, so that it has as many of
a kind as there were. Where we differ: the paper draws the scores of a kind
apart from those of the others, which takes runs on one kind for independent of
runs on another; here they are of one policy. And its scores are exact, while
these are of so many tasks.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from arl.evaluate import intervals

DRAWS = 2000


class Outcomes(NamedTuple):
  """What the runs of a method solved, of each kind of task: [runs, kinds]."""

  graded: np.ndarray
  solved: np.ndarray


def outcomes(
  graded: Sequence[Sequence[int]], solved: Sequence[Sequence[int]]
) -> Outcomes:
  """The outcomes of runs, checked.

  Args:
    graded: [runs, kinds] how many tasks have a grade, at least one each.
    solved: [runs, kinds] how many of them were solved.

  Raises:
    ValueError: the tables have other shapes, or a count is out of range.
  """
  found = Outcomes(np.asarray(graded), np.asarray(solved))
  shape = found.graded.shape
  if found.solved.shape != shape or len(shape) != 2 or not found.graded.size:
    raise ValueError(
      f'outcomes: got tables of shape {shape} and {found.solved.shape},'
      ' expected two of [runs, kinds], not empty.'
    )
  if not ((found.solved >= 0) & (found.solved <= found.graded)).all() or (
    found.graded.min() < 1
  ):
    raise ValueError(
      'outcomes: expected 0 <= solved <= graded and graded >= 1 everywhere;'
      ' leave out a kind without a graded task.'
    )
  return found


def scores(found: Outcomes) -> np.ndarray:
  """[runs, kinds] the share of tasks that was solved."""
  return found.solved / found.graded


def resampled(
  found: Outcomes, rng: np.random.Generator, draws: int
) -> np.ndarray:
  """[draws, runs, kinds] scores of resampled runs, see the module."""
  runs = len(found.graded)
  chosen = rng.integers(runs, size=(draws, runs))
  graded = found.graded[chosen]
  # With one try a task, tasks drawn with return are a binomial number.
  return rng.binomial(graded, scores(found)[chosen]) / graded


def interquartile_mean(
  found: Outcomes, seed: int, level: float = 0.95, draws: int = DRAWS
) -> tuple[float, tuple[float, float]]:
  """The mean of the middle half of all scores, and its interval."""
  drawn = resampled(found, np.random.default_rng(seed), draws)
  means = intervals.interquartile_means(drawn.reshape(draws, -1))
  middle = intervals.interquartile_mean(scores(found).ravel())
  return middle, intervals.percentiles(means, level)


class Profile(NamedTuple):
  """The share of scores above each threshold, and its band: [n] each."""

  thresholds: np.ndarray
  share: np.ndarray
  low: np.ndarray
  high: np.ndarray


def profile(
  found: Outcomes,
  thresholds: Sequence[float] | np.ndarray,
  seed: int,
  level: float = 0.95,
  draws: int = DRAWS,
) -> Profile:
  """The performance profile of a method (arXiv:2108.13264, 4.2).

  Args:
    found: its outcomes.
    thresholds: [n] of scores.
    seed: of the draws.
    level: of the band, at each threshold by itself.
    draws: how many.
  """
  at = np.asarray(thresholds, float)
  drawn = resampled(found, np.random.default_rng(seed), draws)
  shares = np.array([above(one, at) for one in drawn])
  edges = [0.5 - level / 2, 0.5 + level / 2]
  low, high = np.quantile(shares, edges, axis=0)
  return Profile(at, above(scores(found), at), low, high)


def above(values: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
  """[n] the share of all values that are over each threshold."""
  return np.mean(values.ravel()[:, None] > thresholds, axis=0)


def improvement(
  ours: Outcomes,
  theirs: Outcomes,
  seed: int,
  level: float = 0.95,
  draws: int = DRAWS,
) -> tuple[float, tuple[float, float]]:
  """The chance that a run of ours is better than one of theirs, its interval.

  Of each kind the share of pairs of runs, one of each, in which ours has the
  higher score, a tie counting half; the mean over kinds (arXiv:2108.13264,
  4.3). Ours and theirs are drawn apart.

  Raises:
    ValueError: they have other kinds of tasks.
  """
  if ours.graded.shape[1] != theirs.graded.shape[1]:
    raise ValueError(
      f'improvement: {ours.graded.shape[1]} kinds of tasks against'
      f' {theirs.graded.shape[1]}; compare outcomes of the same ones.'
    )
  rng = np.random.default_rng(seed)
  drawn = wins(resampled(ours, rng, draws), resampled(theirs, rng, draws))
  told = float(wins(scores(ours), scores(theirs)))
  return told, intervals.percentiles(drawn, level)


def wins(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
  """[...] of scores [..., runs, kinds]: how often ours is the higher."""
  gap = ours[..., :, None, :] - theirs[..., None, :, :]
  return np.mean((gap > 0) + 0.5 * (gap == 0), axis=(-3, -2, -1))
