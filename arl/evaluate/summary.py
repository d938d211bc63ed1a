"""What a set of episodes amounts to, as flat numbers for the log."""

import collections
import math
from collections.abc import Sequence

import numpy as np

from arl import episode
from arl.evaluate import intervals

# Rewards are float32 and may come in parts: 1 is reached up to rounding.


def success(
  episodes: Sequence[episode.Episode], threshold: float = episode.SOLVED
) -> dict[str, float]:
  """Success rate, its interval, and what became of the episodes.

  Args:
    episodes: at least one, counted by trajectory; those whose status is not
      graded are counted and enter no mean.
    threshold: the least total reward that is a success.

  Returns:
    - `success`, `success_low`, `success_high`: the rate among graded episodes
      and its 95 % Wilson interval, which takes episodes for independent: with
      several samples a task it is too narrow;
    - `reward`, `turns`, `tokens`: means over graded episodes of the total
      reward, the turns the policy took, and the tokens it sampled;
    - `episodes`, `graded`, `failed`, `truncated`: counts; the truncated ones
      are graded but were cut off by a limit, the failed ones have no grade,
      nor have those that were dropped;
    - a count for each status, under its name.
    The rate, the interval and the means are nan when nothing was graded.

  Raises:
    ValueError: there are no episodes, or one has an unknown status.
  """
  if not episodes:
    raise ValueError(
      'success: got no episodes, expected at least one; collect some before '
      'summarizing them.'
    )
  episodes = episode.whole(episodes)
  by_status = collections.Counter(member.status for member in episodes)
  unknown = sorted(set(by_status) - episode.STATUSES)
  if unknown:
    raise ValueError(
      f'success: got status {unknown[0]!r}, expected one of '
      f'{sorted(episode.STATUSES)}; set it from the names in arl.episode.'
    )
  counts = {status: by_status[status] for status in sorted(episode.STATUSES)}
  graded = [member for member in episodes if episode.graded(member)]
  return {
    **means(graded, threshold),
    'episodes': len(episodes),
    'graded': len(graded),
    'failed': sum(counts[status] for status in episode.FAILED),
    'truncated': sum(counts[status] for status in episode.TRUNCATED),
    **counts,
  }


def judged(episodes: Sequence[episode.Episode]) -> dict[str, float]:
  """How rewards of another, such as a judge, track those of the environment.

  Of the graded episodes that keep what the environment paid (`episode.PAID`):
  `success` by that, and Pearson's `correlation` of both total rewards, 0 where
  one of them is constant. Nothing where there are none.
  """
  both = [
    (episode.total_reward(one), np.sum(one.extras[episode.PAID]))
    for one in episodes
    if episode.graded(one) and episode.PAID in one.extras
  ]
  if not both:
    return {}
  given, paid = np.transpose(both)
  varied = np.ptp(given) > 0 and np.ptp(paid) > 0
  return {
    'success': float(np.mean(paid >= episode.SOLVED)),
    'correlation': float(np.corrcoef(given, paid)[0, 1]) if varied else 0.0,
  }


def means(
  graded: Sequence[episode.Episode], threshold: float = episode.SOLVED
) -> dict[str, float]:
  """The rate, its interval and the means of `success`, of graded episodes."""
  names = (
    'success',
    'success_low',
    'success_high',
    'reward',
    'turns',
    'tokens',
  )
  if not graded:
    return dict.fromkeys(names, math.nan)
  totals = [episode.total_reward(member) for member in graded]
  solved = sum(total >= threshold for total in totals)
  turns = [np.unique(member.turn[member.mask]).size for member in graded]
  tokens = [np.count_nonzero(member.mask) for member in graded]
  low, high = intervals.wilson(solved, len(graded))
  return {
    'success': solved / len(graded),
    'success_low': low,
    'success_high': high,
    'reward': float(np.mean(totals)),
    'turns': float(np.mean(turns)),
    'tokens': float(np.mean(tokens)),
  }
