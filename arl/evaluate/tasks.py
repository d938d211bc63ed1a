"""Success, pass@k and pass^k of several samples a task, with intervals."""

import collections
from collections.abc import Callable, Sequence
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


def by_k(
  estimate: Callable[[int, int, int], float], counts: Sequence[tuple[int, int]]
) -> dict[int, Rate]:
  """An estimate for k = 1, 2, 4, ... and the most that every task has.

  Args:
    estimate: `estimators.pass_at_k` or `estimators.pass_all_k`.
    counts: (graded, solved) of each task, see `estimators.counts_by_task`.
  """
  most = min(n for n, _ in counts)
  powers = [2**i for i in range(most.bit_length())]
  return {
    k: rate([estimate(n, c, k) for n, c in counts])
    for k in sorted({*powers, most} - {0})
  }


def _mean_intervals(episodes: Sequence[episode.Episode]) -> dict[str, float]:
  """Bootstrap intervals over tasks of what `summary.success` gives means of."""
  groups = [episode.whole(g.episodes) for g in episode.groups(episodes)]
  graded = [[e for e in group if episode.graded(e)] for group in groups]
  by_task = [summary.means(group) for group in graded if group]
  ends: dict[str, float] = {}
  for name in ('reward', 'turns', 'tokens'):
    values = [means[name] for means in by_task]
    low, high = intervals.bootstrap_mean(values, seed=0)
    ends |= {f'{name}_low': low, f'{name}_high': high}
  return ends


def measure(episodes: Sequence[episode.Episode]) -> dict[str, Any]:
  """What an evaluation amounts to.

  Args:
    episodes: at least one with a grade.

  Returns:
    `summary.success` of the episodes, intervals of its means (`reward_low`,
    ...) over tasks, the name of the `interval` of success, and by k `pass_at`
    and `pass_all`, that one and that all of k samples succeed. With several
    episodes of a task, success is the mean over tasks and its interval
    resamples tasks, since samples of one task are not independent; a task
    without a graded episode is left out, and then there is no pass@k.

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
  result |= _mean_intervals(episodes)
  by_task = collections.Counter(e.task.id for e in episode.whole(episodes))
  if max(by_task.values()) == 1:
    return {**result, 'interval': 'Wilson', 'pass_at': {}, 'pass_all': {}}
  counts = estimators.counts_by_task(episodes, episode.SOLVED)
  return {
    **result,
    **rate([c / n for n, c in counts if n]),
    'interval': 'bootstrap over tasks',
    'pass_at': by_k(estimators.pass_at_k, counts),
    'pass_all': by_k(estimators.pass_all_k, counts),
  }
