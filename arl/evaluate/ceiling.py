"""Whether training widened what a policy can do: two policies by pass@k.

After Yue et al. (arXiv:2504.13837): the policy before and after, on the same
problems, sampled alike. Where the trained one is ahead for small k and behind
for large ones, training has made it surer, not more able, on these problems and
with so many samples: no more follows.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from arl.evaluate import estimators

Counts = Sequence[tuple[int, int]]  # (graded, solved) of each problem


class Coverage(NamedTuple):
  """Of how many problems one sample at least is right, by whose."""

  both: int
  base_only: int
  trained_only: int
  neither: int


def powers(counts: Counts) -> list[int]:
  """k = 1, 2, 4, ... up to half of the samples that every problem has."""
  most = min(n for n, _ in counts) // 2
  return [2**i for i in range(most.bit_length())]


def table(counts: Counts, ks: Sequence[int]) -> np.ndarray:
  """pass@k of each problem, [problems, ks]."""
  return np.array(
    [[estimators.pass_at_k(n, c, k) for k in ks] for n, c in counts]
  )


def coverage(base: Counts, trained: Counts) -> Coverage:
  """Which problems were solved at least once, by the same number of samples."""
  _check(base, trained)
  solved = [(b > 0, t > 0) for (_, b), (_, t) in zip(base, trained)]
  return Coverage(
    solved.count((True, True)),
    solved.count((True, False)),
    solved.count((False, True)),
    solved.count((False, False)),
  )


def crossing(base: np.ndarray, trained: np.ndarray, ks: Sequence[int]) -> float:
  """The least k from which on the base is not behind; inf where there is none.

  Args:
    base: mean pass@k, [ks].
    trained: the same.
    ks: in order.
  """
  behind = np.flatnonzero(base < trained)
  after = behind[-1] + 1 if behind.size else 0
  return float(ks[after]) if after < len(ks) else np.inf


def crossing_interval(
  base: np.ndarray,
  trained: np.ndarray,
  ks: Sequence[int],
  seed: int,
  draws: int = 10_000,
) -> tuple[float, float]:
  """The 95 % bootstrap interval of the crossing, over problems.

  Args:
    base: pass@k of each problem, [problems, ks].
    trained: of the same problems.
    ks: in order.
    seed: of the draws.
    draws: how many.
  """
  rng = np.random.default_rng(seed)
  n = len(base)
  found = []
  for _ in range(draws):
    drawn = rng.integers(n, size=n)
    found.append(crossing(base[drawn].mean(0), trained[drawn].mean(0), ks))
  # Of order statistics, since there is nothing between a number and inf.
  ends = np.quantile(found, [0.025, 0.975], method='inverted_cdf')
  return float(ends[0]), float(ends[1])


def gains(
  base: np.ndarray, trained: np.ndarray, seed: int, draws: int = 10_000
) -> np.ndarray:
  """trained - base of each k: mean, low and high over problems, [3, ks]."""
  rng = np.random.default_rng(seed)
  gap = trained - base
  means = [
    gap[rng.integers(len(gap), size=len(gap))].mean(axis=0)
    for _ in range(draws)
  ]
  return np.stack([gap.mean(0), *np.quantile(means, [0.025, 0.975], axis=0)])


def _check(base: Counts, trained: Counts) -> None:
  if [n for n, _ in base] != [n for n, _ in trained]:
    raise ValueError(
      'ceiling: base and trained policy have other problems, or other numbers'
      ' of graded samples; sample both alike.'
    )
