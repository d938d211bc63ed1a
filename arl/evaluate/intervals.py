"""How sure a number is: intervals for a rate, for a mean, and over seeds."""

import math
import statistics
from collections.abc import Sequence

import numpy as np


def wilson(successes: int, n: int, level: float = 0.95) -> tuple[float, float]:
  """The score interval of a success rate (Wilson, 1927).

  It stays inside [0, 1] and does not collapse when all or none succeed.

  Args:
    successes: how many of the n succeeded.
    n: independent tries, at least 1.
    level: the confidence level, in (0, 1).

  Returns:
    The rate's (low, high).

  Raises:
    ValueError: the counts or the level are out of range.
  """
  _check_level(level)
  if n < 1 or not 0 <= successes <= n:
    raise ValueError(
      f'wilson: got {successes} successes of {n}, expected 0 <= successes <= n '
      'and n >= 1; count only graded tries, and skip a rate without any.'
    )
  z = statistics.NormalDist().inv_cdf(0.5 + level / 2)
  rate, shrink = successes / n, 1 + z * z / n
  center = (rate + z * z / (2 * n)) / shrink
  spread = rate * (1 - rate) / n + z * z / (4 * n * n)
  half = z * math.sqrt(spread) / shrink
  # The ends are exact in the formula, but not after rounding.
  low = 0.0 if successes == 0 else center - half
  high = 1.0 if successes == n else center + half
  return low, high


def bootstrap_mean(
  values: Sequence[float] | np.ndarray,
  seed: int,
  level: float = 0.95,
  draws: int = 10_000,
) -> tuple[float, float]:
  """The percentile bootstrap interval of a mean (Efron, 1979).

  Args:
    values: [n] independent measurements, finite; one per problem where several
      samples share a problem.
    seed: of the resampling; the same seed gives the same interval.
    level: the confidence level, in (0, 1).
    draws: how many resampled means to take.

  Returns:
    The mean's (low, high).

  Raises:
    ValueError: the values are not a finite vector, or an option is out of
      range.
  """
  _check_level(level)
  data = _vector('bootstrap_mean', values, at_least=1)
  if draws < 1:
    raise ValueError(
      f'bootstrap_mean: got draws={draws}, expected at least 1; use thousands.'
    )
  random = np.random.default_rng(seed)
  size = len(data)
  # One draw at a time: an array of all draws would need draws * n numbers.
  means = [data[random.integers(size, size=size)].mean() for _ in range(draws)]
  return percentiles(means, level)


def interquartile_mean(values: Sequence[float] | np.ndarray) -> float:
  """The mean of the middle half, the values at its ends counted in part.

  The statistic of Agarwal et al., "Deep RL at the edge of the statistical
  precipice" (arXiv:2108.13264): less variable than the median, and one run that
  failed or was lucky does not decide it. Of three values the middle one has
  weight 2/3.
  """
  data = _vector('interquartile_mean', values, at_least=1)
  return float(interquartile_means(data[None])[0])


def bootstrap_rates(
  counts: Sequence[tuple[int, int]],
  seed: int,
  level: float = 0.95,
  draws: int = 10_000,
) -> tuple[float, float]:
  """The percentile bootstrap interval of the interquartile mean over runs.

  Runs are drawn with return, and of each drawn run its tasks: with one try a
  task that is a binomial number.

  Args:
    counts: (n, solved) of each run.
    seed: of the draws.
    level: of the interval.
    draws: how many.
  """
  return percentiles(_rates(counts, np.random.default_rng(seed), draws), level)


def bootstrap_gain(
  before: Sequence[tuple[int, int]],
  after: Sequence[tuple[int, int]],
  seed: int,
  level: float = 0.95,
  draws: int = 10_000,
) -> tuple[float, float]:
  """As `bootstrap_rates`, of the difference of two rates in the same runs."""
  if len(before) != len(after):
    raise ValueError(
      f'bootstrap_gain: {len(before)} runs before and {len(after)} after; give'
      ' both of the same runs.'
    )
  rng = np.random.default_rng(seed)
  chosen = rng.integers(len(before), size=(draws, len(before)))
  gain = _draw(after, chosen, rng) - _draw(before, chosen, rng)
  return percentiles(interquartile_means(gain), level)


def _rates(counts, rng, draws) -> np.ndarray:
  chosen = rng.integers(len(counts), size=(draws, len(counts)))
  return interquartile_means(_draw(counts, chosen, rng))


def _draw(counts, chosen, rng) -> np.ndarray:
  """Rates [draws, runs] of the chosen runs, their tasks drawn anew."""
  n, solved = np.asarray(counts).T
  return rng.binomial(n[chosen], (solved / n)[chosen]) / n[chosen]


def interquartile_means(rates: np.ndarray) -> np.ndarray:
  """`interquartile_mean` of each row [draws, runs]: [draws]."""
  data = np.sort(rates, axis=1)
  edges = np.clip(np.arange(data.shape[1] + 1) / data.shape[1], 0.25, 0.75)
  return data @ np.diff(edges) / 0.5


def percentiles(
  values: Sequence[float] | np.ndarray, level: float
) -> tuple[float, float]:
  """The middle part of resampled statistics: their (low, high)."""
  _check_level(level)
  low, high = np.quantile(values, [0.5 - level / 2, 0.5 + level / 2])
  return float(low), float(high)


def mean_and_t(
  values: Sequence[float] | np.ndarray,
) -> tuple[float, float, float]:
  """The mean over seeds and its 95 % Student interval.

  Args:
    values: [n] one finite number a seed, at least two seeds.

  Returns:
    (mean, low, high).

  Raises:
    ValueError: there are fewer than two values, or one is not finite.
  """
  data = _vector('mean_and_t', values, at_least=2)
  mean = float(data.mean())
  error = float(data.std(ddof=1)) / math.sqrt(len(data))
  half = t_quantile(0.975, len(data) - 1) * error
  return mean, mean - half, mean + half


def t_quantile(probability: float, df: int) -> float:
  """The number that Student's t stays below with the given probability.

  Bisects the closed form of the distribution for whole degrees of freedom
  (Abramowitz and Stegun, 26.7.3 and 26.7.4), written in the angle
  atan(t / sqrt(df)), which is bounded.

  Args:
    probability: in [0.5, 1).
    df: degrees of freedom, at least 1.

  Raises:
    ValueError: an argument is out of range.
  """
  if df < 1 or not 0.5 <= probability < 1:
    raise ValueError(
      f't_quantile: got probability={probability} and df={df}, expected '
      '0.5 <= probability < 1 and df >= 1; use symmetry below one half.'
    )
  low, high = 0.0, math.pi / 2
  while low < (middle := (low + high) / 2) < high:
    if 0.5 + _central(middle, df) / 2 < probability:
      low = middle
    else:
      high = middle
  return math.sqrt(df) * math.tan(low)


def _central(angle: float, df: int) -> float:
  """P(|T| <= sqrt(df) tan(angle)): a finite sum of powers of the cosine."""
  sine, cosine = math.sin(angle), math.cos(angle)
  odd = df % 2
  term = cosine if odd else 1.0
  total = 0.0
  for power in range(odd, df - 1, 2):
    total += term
    term *= cosine * cosine * (power + 1) / (power + 2)
  if odd:
    return 2 / math.pi * (angle + sine * total)
  return sine * total


def _check_level(level: float) -> None:
  if not 0 < level < 1:
    raise ValueError(
      f'interval: got level={level}, expected a number between 0 and 1; write '
      '95 % as 0.95.'
    )


def _vector(
  who: str, values: Sequence[float] | np.ndarray, at_least: int
) -> np.ndarray:
  data = np.asarray(values, np.float64)
  if data.ndim != 1 or len(data) < at_least or not np.isfinite(data).all():
    raise ValueError(
      f'{who}: got values of shape {data.shape}, expected a vector of at least '
      f'{at_least} finite numbers; leave out what has no grade.'
    )
  return data
