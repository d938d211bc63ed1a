"""Rewards of those who set tasks, by how much is learned from them."""

import numpy as np


def r_zero(rate: float, share: float = 0.0, *, valid: bool = True) -> float:
  """min(p, 1 - p), less how common the question is.

  R-Zero, arXiv:2508.05004, as the published code; the paper's text has
  `r_zero_paper`. An invalid question earns -1, less the same.

  Args:
    rate: the solver's share of answers that agree with its majority.
    share: the share of the batch that is like it, see `variety.shares`.
    valid: whether it is a question in the right form.
  """
  return (min(rate, 1 - rate) if valid else -1.0) - share


def r_zero_paper(rate: float) -> float:
  """1 - 2 |p - 1/2| (R-Zero, arXiv:2508.05004)."""
  return 1 - 2 * abs(rate - 0.5)


def absolute_zero(rate: float, *, valid: bool = True) -> float:
  """1 - p, and 0 for a task that is never solved.

  Absolute Zero, arXiv:2505.03335. So the best tasks are those solved least, not
  half of the time. An invalid one earns 0, as one that is always solved.
  """
  return 1 - rate if valid and rate > 0 else 0.0


def absolute_zero_formed(reward: float, *, useful: bool, formed: bool) -> float:
  """A reward, but -1 for a wrong form, and -0.5 for a right one of no use.

  Absolute Zero, arXiv:2505.03335, for both of its roles.
  """
  if useful and formed:
    return reward
  return -0.5 if formed else -1.0


def plateau(
  rate: float, *, low: float = 0.4, high: float = 0.6, width: float = 0.25
) -> float:
  """1 from low to high, falling to 0 over `width` on either side."""
  outside = max(low - rate, rate - high, 0.0)
  return max(0.0, 1 - outside / width)


def spade(
  hinted: float,
  plain: float,
  *,
  valid: bool = True,
  scale: float = 0.15,
  regret_weight: float = 0.4,
) -> float:
  """How much a hint helps, and how even the odds are.

  SPADE, arXiv:2608.19197: regret_weight * clip(regret / scale, 0, 1) + the rest
  of it * plateau(win rate), as the published code; surveys give the raw regret.
  An invalid task earns 0. Left out: that a task whose step hangs earns -0.5,
  which is for who runs it to say, and the centering by skill.

  Args:
    hinted: the mean return with the hint.
    plain: without it, which is also the win rate.
    valid: whether the task can be played.
    scale: the regret that counts in full.
    regret_weight: 0 to 1.
  """
  if not valid:
    return 0.0
  regret = float(np.clip((hinted - plain) / scale, 0, 1))
  return regret_weight * regret + (1 - regret_weight) * plateau(plain)
