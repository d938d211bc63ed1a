"""Success and pass@k of several samples a task, with intervals over tasks."""

import collections
from collections.abc import Sequence
from typing import Any

from arl import episode
from arl.evaluate import estimators, intervals, summary

Rate = dict[str, float]  # success, success_low, success_high


def rate(values: Sequence[float]) -> Rate:
  """A mean over tasks and its 95 % bootstrap interval.

  Where every task succeeds always, or none ever, resampling would give an
  interval without width; it is then the Wilson interval of one try a task.

  Args:
    values: one number in [0, 1] a task, at least one.
  """
  n, mean = len(values), sum(values) / len(values)
  low, high = (
    intervals.wilson(round(mean) * n, n)
    if mean in (0, 1)
    else intervals.bootstrap_mean(values, seed=0)
  )
  return {'success': mean, 'success_low': low, 'success_high': high}


def pass_at(counts: Sequence[tuple[int, int]]) -> dict[int, Rate]:
  """pass@k for k = 1, 2, 4, ... and the most that every task has samples for.

  Args:
    counts: (graded, solved) of each task, see `estimators.counts_by_task`.
  """
  most = min(n for n, _ in counts)
  powers = [2**i for i in range(most.bit_length())]
  return {
    k: rate([estimators.pass_at_k(n, c, k) for n, c in counts])
    for k in sorted({*powers, most} - {0})
  }


def measure(episodes: Sequence[episode.Episode]) -> dict[str, Any]:
  """What an evaluation amounts to.

  Args:
    episodes: at least one with a grade.

  Returns:
    `summary.success` of the episodes, the name of the `interval`, and `pass_at`
    by k. With several episodes of a task, success is the mean over tasks and
    its interval resamples tasks, since samples of one task are not independent;
    a task without a graded episode is left out, and then there is no pass@k.

  Raises:
    ValueError: no episode has a grade.
  """
  result: dict[str, Any] = summary.success(episodes)
  if not result['graded']:
    raise ValueError(
      f'measure: got {len(episodes)} episodes without a grade, expected at '
      f'least one with; the first ended with {episodes[0].status}: '
      f'{episodes[0].error}'
    )
  by_task = collections.Counter(member.task.id for member in episodes)
  if max(by_task.values()) == 1:
    return {**result, 'interval': 'Wilson', 'pass_at': {}}
  counts = estimators.counts_by_task(episodes, summary.SOLVED)
  return {
    **result,
    **rate([c / n for n, c in counts if n]),
    'interval': 'bootstrap over tasks',
    'pass_at': pass_at(counts),
  }
