"""What is believed of how often each task of a pool is solved: the arithmetic.

Arrays have one entry a task, [n]. Nothing here chooses; see `estimates`.
"""

import math
from typing import NamedTuple

import numpy as np

# 15 points of the Gauss-Hermite rule for a standard normal.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
_WEIGHTS = _WEIGHTS / math.sqrt(2 * math.pi)


class Logits(NamedTuple):
  """Normal beliefs about logits of success.

  Attributes:
    mean: [n].
    variance: [n].
  """

  mean: np.ndarray
  variance: np.ndarray


def sigmoid(x: np.ndarray) -> np.ndarray:
  """1 / (1 + exp(-x)), without overflow."""
  return 0.5 * (1 + np.tanh(0.5 * x))


def expected(function, belief: Logits) -> np.ndarray:
  """E[function(sigmoid(x))] under the beliefs, by 15 points, [n]."""
  scale = np.sqrt(belief.variance)[:, None]
  points = belief.mean[:, None] + scale * _NODES
  return function(sigmoid(points)) @ _WEIGHTS


def variance_of_success(rate: np.ndarray) -> np.ndarray:
  """p (1 - p): that of a reward of 0 or 1."""
  return rate * (1 - rate)


def mixed(rate: np.ndarray, samples: int) -> np.ndarray:
  """1 - p^G - (1 - p)^G: how likely the rewards of G rollouts differ."""
  return 1 - rate**samples - (1 - rate) ** samples


def drifted(
  belief: Logits,
  *,
  drift: float,
  noise: float,
  furthest: float = 5.0,
  widest: float = 9.0,
) -> Logits:
  """The beliefs after an update of the policy.

  Args:
    belief: before.
    drift: what all logits gained.
    noise: variance that each gained, see `process_noise`.
    furthest: a mean never exceeds it in size, so that a drift which nobody
      watched in a task does not carry it out of sight.
    widest: a variance never exceeds it.
  """
  mean = np.clip(belief.mean + drift, -furthest, furthest)
  return Logits(mean, np.minimum(belief.variance + noise, widest))


def process_noise(change: float, *, base: float, scale: float) -> float:
  """q0 + c * change^2, of an update that moved log-probs by `change`."""
  return base + scale * change**2


class Corrected(NamedTuple):
  """Beliefs after rollouts.

  Attributes:
    belief: the new one.
    gained: by which each mean moved, [n].
    surprise: squared innovations over their variance, [n]; 1 on average where
      the variances are right.
  """

  belief: Logits
  gained: np.ndarray
  surprise: np.ndarray


def corrected(
  belief: Logits, solved: np.ndarray, tried: np.ndarray
) -> Corrected:
  """The beliefs after `solved` of `tried` rollouts, a Kalman filter's step.

  The observation is the empirical logit log((s + 1/2) / (m - s + 1/2)), whose
  variance is about 1 / (s + 1/2) + 1 / (m - s + 1/2).
  """
  won, lost = solved + 0.5, tried - solved + 0.5
  innovation = np.log(won / lost) - belief.mean
  total = belief.variance + 1 / won + 1 / lost
  gain = belief.variance / total
  gained = gain * innovation
  after = Logits(belief.mean + gained, (1 - gain) * belief.variance)
  return Corrected(after, gained, innovation**2 / total)


def common_drift(
  drift: float, gained: np.ndarray, *, decay: float = 0.9, most: float = 0.25
) -> float:
  """What all logits gain an update: a running mean of what tasks gained."""
  if not len(gained):
    return drift
  after = decay * drift + (1 - decay) * float(np.mean(gained))
  return float(np.clip(after, -most, most))


class Counts(NamedTuple):
  """Beta beliefs about success: pseudo-counts, [n] each."""

  won: np.ndarray
  lost: np.ndarray


def counted(
  belief: Counts, solved: np.ndarray, tried: np.ndarray, *, keep: float
) -> Counts:
  """The counts after rollouts; of the old ones the share `keep` stays.

  The rest goes back to a uniform belief (MoPPS, arXiv:2507.04632).
  """
  return Counts(
    keep * belief.won + (1 - keep) + solved,
    keep * belief.lost + (1 - keep) + tried - solved,
  )


def rate(belief: Counts) -> np.ndarray:
  """The mean of Beta beliefs, [n]."""
  return belief.won / (belief.won + belief.lost)
