"""What several samples of a problem say: that one of k solves it, or all."""

import math
from collections.abc import Iterable, Sequence

from arl import episode


def pass_at_k(n: int, c: int, k: int) -> float:
  """The chance that k of n samples, drawn without return, hold a correct one.

  Unbiased for the chance that k fresh samples hold one (Chen et al., 2021,
  arXiv:2107.03374). Exact: ratios of binomials in whole numbers, rounded once.

  Args:
    n: graded samples of the problem. A truncated sample is one of them; a
      sample that failed around the policy is not.
    c: how many of the n are correct.
    k: how many are drawn.

  Raises:
    ValueError: c is not in 0..n, or k not in 1..n: with fewer than k samples
      there is no unbiased estimate.
  """
  _check_counts('pass_at_k', n, c, k)
  ways = math.comb(n, k)
  return (ways - math.comb(n - c, k)) / ways


def pass_all_k(n: int, c: int, k: int) -> float:
  """The chance that k of n samples, drawn without return, are all correct.

  pass^k of tau-bench (Yao et al., 2024, arXiv:2406.12045): unbiased for the
  chance that k fresh samples all succeed, so it falls as k grows.

  Arguments and errors as of `pass_at_k`.
  """
  _check_counts('pass_all_k', n, c, k)
  return math.comb(c, k) / math.comb(n, k)


def _check_counts(who: str, n: int, c: int, k: int) -> None:
  if not 0 <= c <= n:
    raise ValueError(
      f'{who}: got c={c} correct of n={n}, expected 0 <= c <= n; count correct'
      ' samples among the graded ones.'
    )
  if not 1 <= k <= n:
    raise ValueError(
      f'{who}: got k={k} with n={n} graded samples, expected 1 <= k <= n;'
      ' sample the problem more often or ask for a smaller k.'
    )


def mean_pass_at_k(counts: Sequence[tuple[int, int]], k: int) -> float:
  """pass@k averaged over problems, each weighing the same.

  Args:
    counts: (n, c) of each problem, see `pass_at_k`.
    k: how many are drawn.

  Raises:
    ValueError: there is no problem, or one has fewer than k samples.
  """
  if not counts:
    raise ValueError(
      'mean_pass_at_k: got no problems, expected at least one (n, c); evaluate '
      'on a task first.'
    )
  return math.fsum(pass_at_k(n, c, k) for n, c in counts) / len(counts)


def counts_by_task(
  episodes: Iterable[episode.Episode], threshold: float
) -> list[tuple[int, int]]:
  """(graded, solved) of each task, in order of first appearance.

  Args:
    episodes: in any order; those without a grade are left out of both counts,
      so a task whose every episode failed is (0, 0).
    threshold: the least total reward that is a success.
  """
  counts = []
  for group in episode.groups(list(episodes)):
    totals = [
      episode.total_reward(member)
      for member in episode.whole(group.episodes)
      if episode.graded(member)
    ]
    counts.append((len(totals), sum(x >= threshold for x in totals)))
  return counts
