"""Credit of the steps of a response, from scores of theirs."""

from collections.abc import Sequence

import numpy as np


def min_form(
  scores: Sequence[float], *, temperature: float = 0.1
) -> np.ndarray:
  """Process rewards whose sum is about their smallest.

  PURE, arXiv:2504.15275: each weighed by softmax(-score / temperature) over the
  response. As the temperature falls the sum goes to the minimum.

  Args:
    scores: [n], of the steps, -1 to 1: p(good) - p(bad).
    temperature: above 0.

  Returns:
    [n], for the last token of each step.
  """
  score = np.asarray(scores, float)
  if not score.size:
    return score
  logit = -score / temperature
  weight = np.exp(logit - logit.max())
  return weight / weight.sum() * score


def to_go(rewards: Sequence[float]) -> np.ndarray:
  """The sum from each step to the last, without discount."""
  return np.cumsum(np.asarray(rewards, float)[::-1])[::-1]


def _others(values: np.ndarray) -> np.ndarray:
  """The mean of the others of a group; 0 for one alone."""
  count = len(values)
  return (values.sum() - values) / (count - 1) if count > 1 else values * 0


def pure(
  group: Sequence[Sequence[float]],
  solved: Sequence[bool] | None = None,
  *,
  temperature: float = 0.1,
  coef: float = 1.0,
) -> list[np.ndarray]:
  """Advantages of the steps of a group's responses (PURE, arXiv:2504.15275).

  The min-form rewards, less the mean reward a step of the other responses,
  summed from each step on; and where the answers were verified, coef * (solved
  - 1, less the mean of the others'), which all steps of a response share.

  Args:
    group: the scores of the steps of each response.
    solved: whether the answer of each is right, or None for process rewards
      alone.
    temperature: of `min_form`.
    coef: of the outcomes.
  """
  credits = [min_form(each, temperature=temperature) for each in group]
  means = np.array([c.sum() / max(len(c), 1) for c in credits])
  baselines = _others(means)
  outcome = np.zeros(len(credits))
  if solved is not None:
    verified = np.asarray(solved, float) - 1
    outcome = coef * (verified - _others(verified))
  return [
    to_go(credit - baseline) + extra
    for credit, baseline, extra in zip(credits, baselines, outcome)
  ]


def belief_shifts(beliefs: Sequence[float]) -> np.ndarray:
  """How much each segment moved the belief in the right answer.

  Args:
    beliefs: [k + 1], exp(mean log-probability of the right answer) before the
      first segment, and after each; asked with a probe that is no part of what
      is trained on.

  Returns:
    [k], which sum to the last belief less the first.
  """
  return np.diff(np.asarray(beliefs, float))


def vps(
  group: Sequence[Sequence[float]], *, coef: float = 0.3
) -> list[np.ndarray]:
  """What GRPO-VPS adds to the advantage of each segment, for a group.

  arXiv:2604.20659: the shifts of belief; that they are normalized over all
  segments of the group, with 0 for a deviation of 0, is ours.

  Args:
    group: the beliefs of each response, as of `belief_shifts`.
    coef: of the bonus.
  """
  shifts = [belief_shifts(each) for each in group]
  all_shifts = np.concatenate(shifts) if shifts else np.zeros(0)
  if not all_shifts.size or np.ptp(all_shifts) == 0:
    return [np.zeros_like(each) for each in shifts]
  mean = all_shifts.mean()
  # First by the largest, whose square may be too small for a number.
  scale = np.abs(all_shifts - mean).max()
  deviation = np.sqrt(np.mean(((all_shifts - mean) / scale) ** 2))
  return [coef * ((each - mean) / scale) / deviation for each in shifts]


def self_aligned(
  reward: float,
  alone: Sequence[float],
  given: Sequence[float],
  *,
  coef: float = 0.2,
) -> float:
  """A reward for an answer that the question makes likelier (SAR).

  reward + coef * the relative fall of its perplexity, cut at -1 and 1
  (arXiv:2509.05489). The paper tunes the coefficient; its default is ours.

  Args:
    reward: of a verifier.
    alone: [n], log-probabilities of the answer's tokens without the question.
    given: [n], the same with it.
    coef: of the fall.
  """
  if not len(alone):
    return reward
  rise = float(np.mean(alone) - np.mean(given))  # of the mean, in nats
  return reward + coef * float(np.clip(-np.expm1(min(rise, 1.0)), -1, 1))
