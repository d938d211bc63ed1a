"""One reward from an outcome and small terms that cannot outweigh it."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

WEIGHTS: Mapping[str, float] = {
  'format': 0.2,
  'tool_efficiency': 0.1,
  'length': -0.05,
}


class Composite(NamedTuple):
  """A reward, and what it is made of, to be logged apart.

  Attributes:
    total: the reward.
    parts: the outcome and each term, weighed, before the cap.
    shaping: the sum of the terms, after it.
  """

  total: float
  parts: dict[str, float]
  shaping: float


def check_cap(cap: float) -> None:
  """Refuses a cap with which a failure can exceed a success."""
  if not 0 <= cap <= 0.5:
    raise ValueError(
      f'reward: cap is {cap}; give 0 to 0.5, or a failure can exceed a success.'
    )


def capped(
  outcome: float,
  terms: Mapping[str, float],
  *,
  weights: Mapping[str, float] = WEIGHTS,
  outcome_weight: float = 1.0,
  cap: float = 0.5,
) -> Composite:
  """outcome_weight * outcome + the weighed terms, cut at the cap.

  The terms together are at most cap * outcome_weight, up or down. So with an
  outcome of 0 or 1 and a cap of 0.5 or less no failure exceeds a success. The
  weights are those that surveys name, the cap is ours.

  Args:
    outcome: 0 to 1.
    terms: by name, each about 0 to 1.
    weights: of the terms, by name.
    outcome_weight: of the outcome.
    cap: 0 to 0.5, a share of the outcome's weight.

  Raises:
    ValueError: a term has no weight, or the cap is out of its range.
  """
  check_cap(cap)
  if unknown := sorted(terms.keys() - weights.keys()):
    raise ValueError(
      f'capped: no weight for {", ".join(unknown)}; add it to weights.'
    )
  parts = {name: weights[name] * value for name, value in terms.items()}
  most = cap * outcome_weight
  shaping = float(np.clip(sum(parts.values()), -most, most))
  parts['outcome'] = outcome_weight * outcome
  return Composite(parts['outcome'] + shaping, parts, shaping)


def hybrid(
  outcome: float,
  process: float,
  execution: float,
  *,
  weights: tuple[float, float, float] = (0.6, 0.2, 0.2),
) -> float:
  """A weighed sum of three scores of 0 to 1; the weights are the surveys'."""
  scores = (outcome, process, execution)
  return sum(w * score for w, score in zip(weights, scores, strict=True))
