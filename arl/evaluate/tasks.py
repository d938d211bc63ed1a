"""Success, pass@k, maj@k and pass^k of several samples a task."""

import collections
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

from arl import episode
from arl.evaluate import estimators, intervals, summary

Rate = dict[str, float]  # success, success_low, success_high
Answer = Callable[[episode.Episode], str | None]


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


def answer(one: episode.Episode) -> str | None:
  """The last action of an episode that ended by itself, canonical.

  Case, spaces and compatible forms of characters do not matter, nor does a full
  stop at the end. None where a limit ended it or nothing was said.
  """
  if one.status != episode.FINISHED or not one.exchanges:
    return None
  said = unicodedata.normalize('NFKC', one.exchanges[-1].action).casefold()
  return ' '.join(said.split()).removesuffix('.') or None


def by_majority(
  episodes: Sequence[episode.Episode], answer_of: Answer
) -> dict[int, Rate]:
  """maj@k for k = 1, 3, 5, ... as far as every task has samples: to 2^i + 1.

  Even numbers are left out: of two answers, one vote more decides nothing.
  """
  groups = [episode.whole(g.episodes) for g in episode.groups(episodes)]
  graded = [[e for e in group if episode.graded(e)] for group in groups]
  most = min(map(len, graded))
  ks = {1, *(2**i + 1 for i in range(1, most.bit_length()))}
  votes = [
    (
      [answer_of(e) for e in group],
      [episode.total_reward(e) >= episode.SOLVED for e in group],
    )
    for group in graded
  ]
  return {
    k: rate([estimators.majority_at_k(*vote, k) for vote in votes])
    for k in sorted(ks)
    if k <= most
  }


def measure(
  episodes: Sequence[episode.Episode], answer_of: Answer | None = None
) -> dict[str, Any]:
  """What an evaluation amounts to.

  Args:
    episodes: at least one with a grade.
    answer_of: what an episode answered, see `answer`; None where episodes end
      with no answer that could be compared.

  Returns:
    `summary.success` of the episodes, intervals of its means (`reward_low`,
    ...) over tasks, the name of the `interval` of success, and by k `pass_at`,
    `maj_at` and `pass_all`, that one, the most frequent and that all of k
    samples succeed. With several episodes of a task, success is the mean over
    tasks (avg@k), its interval resamples tasks, and `success_error` is its
    standard error clustered by task, since samples of one task are not
    independent; a task without a graded episode is left out, and then there is
    no pass@k.

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
    nothing: dict[str, Any] = {'pass_at': {}, 'maj_at': {}, 'pass_all': {}}
    return {**result, 'interval': 'Wilson', **nothing}
  counts = estimators.counts_by_task(episodes, episode.SOLVED)
  rates = [c / n for n, c in counts if n]
  if len(rates) > 1:
    result['success_error'] = estimators.clustered_error(rates)
  return {
    **result,
    **rate(rates),
    'interval': 'bootstrap over tasks',
    'pass_at': by_k(estimators.pass_at_k, counts),
    'maj_at': by_majority(episodes, answer_of) if answer_of else {},
    'pass_all': by_k(estimators.pass_all_k, counts),
  }
