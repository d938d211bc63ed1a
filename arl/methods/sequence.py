"""Sequence-level ratios."""

import functools

from arl import ranges
from arl.kernels import corrections, ratios, surrogates
from arl.methods import compose, grpo


def gspo(
  *, low: ranges.NonNegative = 3e-4, high: ranges.Positive = 4e-4
) -> compose.Objective:
  """Group sequence policy optimization (Zheng et al., arXiv:2507.18071).

  Changes GRPO: one length-normalized ratio and one clip a sequence. The bounds
  are small because the mean log-ratio is. No KL. Status: published, official
  code read.
  """
  return grpo.grpo(kl_coef=0)._replace(
    ratio=ratios.sequence,
    surrogate=functools.partial(surrogates.clip, low=low, high=high),
  )


def gspo_token(
  *, low: ranges.NonNegative = 3e-4, high: ranges.Positive = 4e-4
) -> compose.Objective:
  """GSPO-token (arXiv:2507.18071, 4.3): GSPO's ratio, token gradients.

  Equal to GSPO while advantages are constant in a sequence; made for advantages
  that are not. Status: published, official code read.
  """
  return gspo(low=low, high=high)._replace(ratio=ratios.sequence_token)


def gspo_reweighted(
  *, low: ranges.NonNegative = 0.2, high: ranges.Positive = 0.28
) -> compose.Objective:
  """What a survey calls GSPO: credit shared out by how far tokens moved.

  A token's share of the sequence's advantage grows with |log-ratio|; the ratio
  stays a token's. The published GSPO (arXiv:2507.18071) changes the ratio, not
  the advantage.
  Status: survey-described, our definition.
  """
  return grpo.dapo(low=low, high=high)._replace(
    corrections=(corrections.moved_share,)
  )


def gmpo(
  *, low: ranges.Positive = 0.4, high: ranges.Positive = 0.4
) -> compose.Objective:
  """Geometric-mean policy optimization (Zhao et al., arXiv:2507.20673).

  Changes GRPO: the geometric mean of a sequence's ratios, each clipped on the
  log side before. No KL. Status: published, official code read.
  """
  return grpo.grpo(kl_coef=0)._replace(
    surrogate=functools.partial(surrogates.geometric, low=low, high=high)
  )
