"""Sequence-level ratios."""

import functools

from arl.kernels import ratios, surrogates
from arl.methods import compose, grpo


def gspo(*, low: float = 3e-4, high: float = 4e-4) -> compose.Objective:
  """Group sequence policy optimization (Zheng et al., arXiv:2507.18071).

  Changes GRPO: one length-normalized ratio and one clip a sequence. The bounds
  are small because the mean log-ratio is. No KL. Status: published, official
  code read.
  """
  return grpo.grpo(kl_coef=0)._replace(
    ratio=ratios.sequence,
    surrogate=functools.partial(surrogates.clip, low=low, high=high),
  )


def gspo_token(*, low: float = 3e-4, high: float = 4e-4) -> compose.Objective:
  """GSPO-token (same paper, section 4.3): GSPO's ratio, token gradients.

  Equal to GSPO while advantages are constant in a sequence; made for advantages
  that are not. Status: published, official code read.
  """
  return gspo(low=low, high=high)._replace(ratio=ratios.sequence_token)
