"""Trained reward models as judges: of texts, and as terms of the reward.

  config.reward.terms.rm = {
      'name': 'arl.train.reward_models.outcome',
      'path': 'runs/rm/final',
      'weight': 0.5,
  }

A judge is a `verdict.Scorer`, and a term of `arl.rewards.shaping`. A rollout it
judges by the ids that were sampled, a text by those that its own tokenizer
makes of it; a model must have the policy's tokenizer. Scores are chances, 0 to
1, but for `endogenous`, which gives nats a token. A trajectory of several rows
is judged by them one after the other.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from arl import episode
from arl.kernels import reward_models
from arl.rewards import ensembles, verdict
from arl.train import judges

REDUCED: dict[str, Callable[[np.ndarray], float]] = {
  'min': np.min,
  'product': np.prod,
  'mean': np.mean,
  'last': lambda chances: chances[-1],
}
COMBINED: dict[str, Any] = {
  'mean': ensembles.mean,
  'worst': ensembles.worst,
  'less_variance': ensembles.less_variance,
  'less_deviation': ensembles.less_deviation,
}


def outcome(*, path: str) -> judges.Judge:
  """The chance that the whole is good: of `reward.orm`, or of `reward.bt`.

  Of the latter it is the chance to be preferred to what scores 0.

  Args:
    path: of the run's `final`, or of another folder of a critic.

  Raises:
    ValueError: the folder has no value head, or one of bins.
  """

  def of(said: judges.Said, scores: np.ndarray) -> float:
    return _chance(scores[np.flatnonzero(said.mask)[-1]])

  return judges.by_value(path, of)


def process(*, path: str, reduce: str = 'min') -> judges.Judge:
  """The chances of the steps, as one: of `reward.prm` or `reward.agent_prm`.

  Args:
    path: as of `outcome`.
    reduce: what makes one of them: a name of REDUCED.

  Raises:
    ValueError: as of `outcome`, or there is no such reduction.
  """
  if reduce not in REDUCED:
    raise ValueError(
      f'process: reduce is {reduce!r}; give one of {", ".join(REDUCED)}.'
    )

  def of(said: judges.Said, scores: np.ndarray) -> float:
    return float(REDUCED[reduce](steps(said, scores)))

  return judges.by_value(path, of)


def steps(said: judges.Said, scores: np.ndarray) -> np.ndarray:
  """The chances of the steps of a sequence: after the last token of each."""
  at = np.flatnonzero(said.mask)
  ends = [at[said.turn[at] == turn][-1] for turn in np.unique(said.turn[at])]
  return np.array([_chance(scores[end]) for end in ends])


def endogenous(*, path: str) -> judges.Judge:
  """What a model of language thinks of it, by its own logits: a mean a token.

  The rewards that its logits imply (`reward_models.endogenous`), without which
  their sum prefers what is short. The model stays as it is: that of `path`, not
  the policy as it is trained.

  Args:
    path: of a model folder.
  """

  def of(said: judges.Said, both: np.ndarray) -> float:
    there = both[1:][said.mask[1:]]  # nothing was chosen before the first
    if not len(there):
      return math.nan
    chosen, total = jnp.asarray(there.T)
    return float(jnp.mean(reward_models.endogenous(chosen, total)))

  return judges.by_logits(path, of)


class Ensemble(NamedTuple):
  """Several judges as one.

  Attributes:
    members: each of which has one number a sequence.
    combine: chances [members, n] -> [n].
  """

  members: Sequence[judges.Judge]
  combine: Callable[[np.ndarray], np.ndarray]

  def score(self, texts: Sequence[str]) -> list[verdict.Verdict]:
    """One verdict a text; an error where any judge has none."""
    return ensembles.joined(
      [judge.score(texts) for judge in self.members], self.combine
    )

  def __call__(self, played: Sequence[episode.Episode]) -> np.ndarray:
    """A score a trajectory; errors as of a judge."""
    return self.combine(np.stack([judge(played) for judge in self.members]))


def ensemble(
  *, paths: Sequence[str], combine: str = 'less_variance', **numbers: Any
) -> Ensemble:
  """Several outcome models, which are harder to fool (arXiv:2310.02743).

  Their chances share a scale, so they are not standardized.

  Args:
    paths: of each, as of `outcome`.
    combine: what makes one of their scores: a name of COMBINED.
    **numbers: of that, such as `coef`.

  Raises:
    ValueError: no model, or there is no such combination.
  """
  if not paths or combine not in COMBINED:
    raise ValueError(
      f'ensemble: {len(paths)} models, combine={combine!r}; give models, and'
      f' one of {", ".join(COMBINED)}.'
    )
  members = [outcome(path=path) for path in paths]
  return Ensemble(members, functools.partial(COMBINED[combine], **numbers))


def _chance(score) -> float:
  return float(jax.nn.sigmoid(score))
