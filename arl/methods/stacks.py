"""Recipes put together from the axes of others, as surveys propose them."""

from arl import ranges
from arl.kernels import ratios
from arl.methods import compose, grpo, states


def surveyed(
  *,
  gamma: ranges.Fraction = 0.95,
  coef: ranges.NonNegative = 1.0,
  low: ranges.NonNegative = 3e-4,
  high: ranges.Positive = 4e-4,
  entropy_coef: ranges.NonNegative = 0.001,
) -> compose.Objective:
  """The stack of agentic surveys: an axis of each of four methods.

  GiGPO's credit (arXiv:2505.10978), GSPO-token's ratio of a sequence
  (arXiv:2507.18071, 4.3), DAPO's bounds that differ (arXiv:2503.14476), and
  StarPO-S (arXiv:2504.20073): no KL, a small bonus of entropy and, by
  `select.most_varied`, the groups whose rewards vary most. The rollouts are
  ARPO's (arXiv:2507.19849), `arpo.four`. Status: survey-described, our
  composition.
  """
  credited = states.gigpo(gamma=gamma, coef=coef)
  whole = grpo.starpo_s(low=low, high=high, entropy_coef=entropy_coef)
  return whole._replace(
    advantage=credited.advantage,
    ratio=ratios.sequence_token,
    monitors=(*whole.monitors, *credited.monitors),
  )
