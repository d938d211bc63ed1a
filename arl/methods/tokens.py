"""Means in which some tokens count more than others."""

import functools

from arl import methods, ranges
from arl.kernels import aggregations, importance
from arl.methods import compose


def rest(
  base: methods.Base = 'grpo.dapo',
  *,
  start: ranges.NonNegative = 0.6,
  growth: ranges.NonNegative = 0.002,
) -> compose.Objective:
  """ResT (arXiv:2509.21826): structure first, then what is in it.

  Tokens weigh by their structural kind; thinking and arguments gain weight as
  training goes on. Status: official code read.
  """
  weigh = functools.partial(importance.by_kind, start=start, growth=growth)
  return _weighted(base, weigh)


def delta(
  base: methods.Base = 'grpo.dapo', *, rounds: ranges.Lag = 1
) -> compose.Objective:
  """DelTA (arXiv:2605.21467): tokens that tell good from bad count more.

  By a random projection of the gradient in the output head. Status: published;
  the scale of a side is ours.
  """
  weigh = functools.partial(importance.discriminative, rounds=rounds)
  return _weighted(base, weigh)


def _weighted(base, weigh) -> compose.Objective:
  objective = methods.objective(base)
  return objective._replace(
    advantage=(*compose.steps(objective.advantage), ('importance', weigh)),
    aggregate=aggregations.weighted,
  )
