"""Imitation of tokens that differ in weight.

Plain token-masked SFT, in which they do not, is `terms.imitation`.
"""

import functools

from arl import ranges
from arl.kernels import imitation
from arl.methods import compose, terms


def weighted() -> compose.Term:
  """Masked SFT in which each example has a weight, that of its record.

  The sum over tokens of weight * -log pi, over the sum of the weights. A mix of
  kinds (AgentTuning, arXiv:2310.12823) is one of examples instead: see
  `conversations.make`. Status: standard.
  """
  return terms.imitation(aggregate=imitation.by_example)


def actobs(*, observation_coef: ranges.NonNegative = 1.0) -> compose.Term:
  """ActObs (arXiv:2609.20715): imitation of observations beside actions.

  A token of the environment counts `observation_coef`, lambda in the paper, one
  of the policy 1, in the loss and in what it is divided by; at 0 this is
  `terms.imitation`. Reported to help pass@16 and small models, and to harm the
  first answer of larger ones. What an environment says may be of another's
  making, and is learnt too: so it is a method of its own. Status: digests read.
  """
  weigh = functools.partial(
    imitation.with_observations, observation_coef=observation_coef
  )
  return terms.imitation(aggregate=weigh)
