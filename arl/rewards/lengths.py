"""Rewards for being short; lengths count tokens of the policy."""

from collections.abc import Sequence

import numpy as np

from arl import episode


def linear(
  reward: float, length: float, target: float, *, coef: float = 0.001
) -> float:
  """reward - coef for each token beyond the target.

  Surveys describe it, no publication gives a formula.
  """
  return reward - coef * max(0.0, length - target)


def sigmoid(
  reward: float, length: float, target: float, *, tau: float = 200.0
) -> float:
  """reward * sigmoid(-(length - target) / tau), of a reward above 0.

  At the target it is halved. A reward of 0 or less stays as it is, since
  shrinking it would pay for long failures; that is ours. Surveys describe it,
  no publication gives a formula.
  """
  if reward <= 0:
    return reward
  return float(reward * np.exp(-np.logaddexp(0, (length - target) / tau)))


def overlong(length: float, *, longest: float, buffer: float) -> float:
  """A penalty for being nearly too long, -1 to 0.

  What `arl.kernels.shaping.overlong` adds on a column, for one length: DAPO,
  arXiv:2503.14476, eq. 13.
  """
  return float(np.clip((longest - buffer - length) / buffer, -1, 0))


def in_group(lengths: Sequence[float], correct: Sequence[bool]) -> np.ndarray:
  """Half for the shortest to minus half for the longest of a group.

  A wrong one earns no more than 0. All 0 where all are of one length. Kimi
  k1.5's length penalty, arXiv:2501.12599, which is added with a weight that
  is 0 in the beginning.

  Args:
    lengths: [n], of the responses to one task.
    correct: [n], whether each is right.
  """
  length = np.asarray(lengths, float)
  if not length.size or np.ptp(length) == 0:
    return np.zeros_like(length)
  rank = 0.5 - (length - length.min()) / np.ptp(length)
  return np.where(np.asarray(correct, bool), rank, np.minimum(rank, 0))


def unless_cut(reward: float, status: str) -> float:
  """The reward, or 0 of an episode that a limit cut off.

  Args:
    reward: of its grader.
    status: of `arl.episode.STATUSES`.
  """
  return 0.0 if status in episode.TRUNCATED else reward


def step_cost(reward: float, steps: int, *, cost: float = 0.01) -> float:
  """reward - cost for each step; practice for tasks on the web."""
  return reward - cost * steps
