"""The GRPO family: group baselines, token ratios, no critic."""

import functools

from arl.kernels import advantages, aggregations, surrogates, weights
from arl.methods import compose, terms


def grpo(*, clip: float = 0.2, kl_coef: float = 0.04) -> compose.Objective:
  """Group relative policy optimization (Shao et al., arXiv:2402.03300).

  Rewards normalized within the group, PPO's clip, k3 to the reference in the
  loss, a mean over sequences of token means. Left out: process rewards.
  kl_coef = 0 drops the term and with it the reference model. Status: published;
  official code (verl, TRL) read for the deviation and its eps.
  """
  mean = aggregations.sequence_mean
  return compose.Objective(
    advantage=advantages.group_normalize,
    surrogate=functools.partial(surrogates.clip, low=clip, high=clip),
    aggregate=mean,
    terms=(terms.kl(kl_coef, aggregate=mean),) if kl_coef else (),
  )


def dr_grpo(*, clip: float = 0.2, length: float = 3000) -> compose.Objective:
  """Dr. GRPO (Liu et al., arXiv:2503.20783): GRPO done right.

  Changes: no division by the deviation (a bias towards very easy and very hard
  prompts) and none by each sequence's length (long wrong answers are punished
  less); `length` is the generation budget in tokens. No KL. Status: published,
  official code read.
  """
  return grpo(clip=clip, kl_coef=0)._replace(
    advantage=advantages.group_center,
    aggregate=functools.partial(aggregations.constant, length=length),
  )


def dapo(*, low: float = 0.2, high: float = 0.28) -> compose.Objective:
  """DAPO's loss (Yu et al., arXiv:2503.14476).

  Changes: clip-higher, every token of the batch weighs the same, no KL. Left
  out here, because they are no loss: dynamic sampling (`prompts.select`) and
  overlong reward shaping. Status: published, official code read.
  """
  return grpo(kl_coef=0)._replace(
    surrogate=functools.partial(surrogates.clip, low=low, high=high),
    aggregate=aggregations.token_mean,
  )


def cispo(*, high: float = 4.0, low: float = 1.0) -> compose.Objective:
  """CISPO (MiniMax-M1, arXiv:2506.13585).

  Changes: the importance weight is truncated and detached, so clipping takes
  no token's gradient. The paper gives no number for the upper bound; 1 + high
  = 5 is that of ScaleRL (arXiv:2510.13786), and low = 1 leaves the lower side
  open. Status: published form, bound from another publication.
  """
  return dapo()._replace(
    surrogate=functools.partial(weights.clipped_weight, low=low, high=high),
  )
