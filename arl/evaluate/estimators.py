"""What several samples of a problem say: that one of k solves it, or all."""

import collections
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


def majority_at_k(
  answers: Sequence[str | None], right: Sequence[bool], k: int
) -> float:
  """The chance that the most frequent of k answers is right.

  The k samples are drawn without return from the n, and the chance is exact:
  unbiased for k fresh samples (self-consistency, Wang et al.,
  arXiv:2203.11171). Of several answers that are equally frequent each wins
  equally often. What could not be read as an answer never wins, and where
  nothing could be read the vote is lost.

  Args:
    answers: of each graded sample, canonical: two that mean the same are equal;
      None where there is none to be read.
    right: whether each is. Where equal answers differ in this, as where a
      grader looks at more than the answer, an answer is as right as on average.
    k: how many vote.

  Raises:
    ValueError: the two differ in length, or k is not in 1..n.
  """
  n = len(answers)
  if n != len(right):
    raise ValueError(
      f'majority_at_k: got {n} answers and {len(right)} grades, expected one'
      ' grade an answer.'
    )
  _check_counts('majority_at_k', n, sum(map(bool, right)), k)
  counts = collections.Counter(x for x in answers if x is not None)
  silent = n - counts.total()
  won = 0.0
  for answer, count in counts.items():
    good = [r for x, r in zip(answers, right) if x == answer]
    if any(good):
      others = [c for x, c in counts.items() if x != answer]
      won += sum(good) / count * _wins(count, others, silent, k)
  return won / math.comb(n, k)


def _wins(count: int, others: Sequence[int], silent: int, k: int) -> float:
  """In how many draws an answer wins; a draw of so many ties in part.

  Args:
    count: samples with the answer.
    others: samples with each other answer.
    silent: samples without one.
    k: how many are drawn.
  """
  won = 0.0
  for votes in range(1, min(count, k) + 1):
    # (drawn, ties) -> ways, the answer's own votes and the silent ones first.
    ways = {
      (votes + mute, 0): math.comb(count, votes) * math.comb(silent, mute)
      for mute in range(min(silent, k - votes) + 1)
    }
    for other in others:
      ways = _draw_from(other, votes, k, ways)
    won += math.fsum(
      n / (1 + ties) for (drawn, ties), n in ways.items() if drawn == k
    )
  return won


def _draw_from(
  other: int, most: int, k: int, ways: dict[tuple[int, int], int]
) -> dict[tuple[int, int], int]:
  """The ways once up to `most` of another answer's samples are drawn too."""
  made: dict[tuple[int, int], int] = collections.defaultdict(int)
  for (drawn, ties), n in ways.items():
    for votes in range(min(other, most, k - drawn) + 1):
      key = (drawn + votes, ties + (votes == most))
      made[key] += n * math.comb(other, votes)
  return made


def clustered_error(rates: Sequence[float]) -> float:
  """The standard error of a mean over problems, samples of one being alike.

  sqrt(variance of the problems' rates / N), by N - 1.

  Args:
    rates: of each problem, the mean over its samples.

  Raises:
    ValueError: there are fewer than two problems.
  """
  n = len(rates)
  if n < 2:
    raise ValueError(
      f'clustered_error: got {n} problems, expected two at least; the error is'
      ' of how much problems differ.'
    )
  mean = math.fsum(rates) / n
  return math.sqrt(math.fsum((x - mean) ** 2 for x in rates) / (n - 1) / n)


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
