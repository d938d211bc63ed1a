"""Rewards from rubrics: criteria that a judge ticks, and how they are joined.

Of these publications only digests are known, so formulas may differ in detail.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from arl.rewards import verdict


def weighted(
  scores: Sequence[verdict.Verdict], weights: Sequence[float]
) -> verdict.Verdict:
  """The mean of the criteria's scores by their weights.

  An error where a criterion has no score, or no weight is above 0.
  """
  if failed := next((s for s in scores if s.score is None), None):
    return verdict.error(f'a criterion has no score: {failed.detail}')
  if not sum(weights) > 0:
    return verdict.error('the weights of the rubric sum to nothing')
  pairs = zip(verdict.scores(scores), weights, strict=True)
  return verdict.scored(sum(s * w for s, w in pairs) / sum(weights))


class Checklist(NamedTuple):
  """Running means for `tcr`: of outcomes o, of checklist scores c.

  Attributes:
    outcome: of o.
    score: of c.
    product: of o * c.
    square: of o * o.
  """

  outcome: float
  score: float
  product: float
  square: float


def observed(
  outcomes: Sequence[float],
  scores: Sequence[float],
  before: Checklist | None = None,
  *,
  decay: float = 0.9,
) -> Checklist:
  """The running means after a batch; of this batch alone if it is the first."""
  o, c = np.asarray(outcomes, float), np.asarray(scores, float)
  now = Checklist(
    *(float(x) for x in (o.mean(), c.mean(), (o * c).mean(), (o * o).mean()))
  )
  if before is None:
    return now
  return Checklist(*(decay * b + (1 - decay) * n for b, n in zip(before, now)))


def tcr(
  outcomes: Sequence[float],
  scores: Sequence[float],
  mean_outcome: float,
  *,
  coef: float = 0.5,
) -> np.ndarray:
  """o + coef * (c - m), where m is a running mean of outcomes.

  TCR, arXiv:2607.19824. The m is one number for a group, so centering there
  removes it: then this is o + coef * c. See `tcr_regressed`. The defaults are
  ours.

  Args:
    outcomes: [n], 0 to 1.
    scores: [n], of a checklist on the reasoning, 0 to 1.
    mean_outcome: `observed(..).outcome`, before this batch.
    coef: of the checklist.
  """
  residual = np.asarray(scores, float) - mean_outcome
  return np.asarray(outcomes, float) + coef * residual


def tcr_regressed(
  outcomes: Sequence[float],
  scores: Sequence[float],
  seen: Checklist,
  *,
  coef: float = 0.5,
) -> np.ndarray:
  """o + coef * (c - what o predicts of c), by linear regression; ours.

  What a running mean is meant for and cannot do in a group: the part of the
  checklist that the outcome already says is taken out.
  """
  o, c = np.asarray(outcomes, float), np.asarray(scores, float)
  variance = seen.square - seen.outcome**2
  covariance = seen.product - seen.outcome * seen.score
  slope = covariance / variance if variance > 1e-12 else 0.0
  return o + coef * (c - seen.score - slope * (o - seen.outcome))


def v_rubrics(
  answer: float,
  scores: Sequence[float],
  weights: Sequence[float],
  *,
  pitfall: bool = False,
  coef: float = 0.5,
) -> float:
  """coef * answer + the rest of it * rubric (V-Rubrics, arXiv:2608.25580).

  Args:
    answer: 0 to 1.
    scores: of the positive criteria.
    weights: of the same.
    pitfall: whether any pitfall was stepped into; then the rubric is 0.
    coef: of the answer.
  """
  share = np.asarray(weights, float) / np.sum(weights)
  rubric = 0.0 if pitfall else float(share @ np.asarray(scores, float))
  return coef * answer + (1 - coef) * rubric


def _standard(values: np.ndarray) -> np.ndarray:
  """By column: 0 mean, deviation 1; 0 for a column that is constant."""
  varies = np.ptp(values, axis=0) > 0
  centered = np.where(varies, values - values.mean(axis=0), 0)
  return centered / np.where(varies, values.std(axis=0), 1)


def v_rubrics_advantage(
  answers: Sequence[float],
  scores: np.ndarray,
  weights: Sequence[float],
  ends: np.ndarray,
  length: int,
  *,
  coef: float = 0.5,
) -> np.ndarray:
  """The advantage of each token, a criterion for the tokens up to its end.

  coef * z(answer) + the rest of it * the weighed z(score) of each criterion,
  on tokens before the one where it was settled, z over the group.

  Args:
    answers: [g], of a group.
    scores: [g, c], of the criteria; 0 where a pitfall voids them.
    weights: [c].
    ends: [g, c], how many tokens there are up to where each is settled.
    length: of the longest response.

  Returns:
    [g, length].
  """
  share = np.asarray(weights, float) / np.sum(weights)
  before = np.arange(length) < np.asarray(ends)[..., None]
  parts = (share * _standard(np.asarray(scores, float)))[..., None] * before
  outcome = _standard(np.asarray(answers, float))[:, None]
  return coef * outcome + (1 - coef) * parts.sum(axis=1)


def trca(
  signed: Sequence[float],
  satisfied: Sequence[Collection[str]],
  conditions: Collection[str],
  *,
  coef: float = 0.8,
) -> np.ndarray:
  """The reward of each step of a trajectory (TRCA, arXiv:2608.16156).

  (1 - coef) * its signed score + coef * the share of conditions that it is the
  first to satisfy. The outcome is added on the last step, and steps are
  normalized among those in similar contexts, by whoever calls.

  Args:
    signed: [n], of each step: evidence and execution count up, what makes the
      trajectory invalid down.
    satisfied: [n], the conditions that each step satisfies.
    conditions: all there are.
    coef: of the conditions.
  """
  missing, rewards = set(conditions), []
  for score, found in zip(signed, satisfied, strict=True):
    new = missing & set(found)
    missing -= new
    share = len(new) / len(conditions) if conditions else 0.0
    rewards.append((1 - coef) * score + coef * share)
  return np.asarray(rewards)


def draco_reward(passed: int, failed: int) -> float:
  """(passed - failed) / (passed + failed); 0 of no criteria.

  DRACO, arXiv:2609.04094. Criteria that none of the group fails tell nothing:
  `telling` drops them.
  """
  total = passed + failed
  return (passed - failed) / total if total else 0.0


def telling(passes: np.ndarray) -> np.ndarray:
  """Which criteria some response of the group fails, [c].

  Args:
    passes: [g, c], 1 passed, 0 failed, nan where it does not apply.
  """
  return np.any(passes == 0, axis=0)


def draco_quality(passed: Sequence[int], failed: Sequence[int]) -> np.ndarray:
  """The share of the criteria that cite a step which it passes, [n].

  A step that none cites has the mean of those that are cited; without any, 1.
  """
  good, bad = np.asarray(passed, float), np.asarray(failed, float)
  cited = good + bad > 0
  share = good / np.where(cited, good + bad, 1)
  return np.where(cited, share, share[cited].mean() if cited.any() else 1.0)


def draco(
  advantage: float, quality: Sequence[float], tokens: Sequence[int]
) -> np.ndarray:
  """A response's advantage, given to its steps by their quality.

  DRACO, arXiv:2609.04094. Good steps take more of a good one, bad steps more of
  a bad one. Summed over the tokens it is what it was. A step of few tokens has
  much a token, so cut what is too large for an update.

  Args:
    advantage: of the response.
    quality: [n], of each step, 0 to 1.
    tokens: [n], of each step.

  Returns:
    [n], the advantage of each token of a step.
  """
  q, n = np.asarray(quality, float), np.asarray(tokens, float)
  weight = q if advantage >= 0 else 1 - q
  if not weight.any() or not n.all():
    return np.full_like(q, advantage)
  # First by the largest, which may be too small for a product.
  weight = weight / weight.max()
  return advantage * n.sum() * weight / (n * weight.sum())
