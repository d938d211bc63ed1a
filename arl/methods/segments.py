"""Credit of the turns of a sequence, by scores, beliefs or what came of them.

The environment's scores of steps (`Turn.process`), or those of a strategy, are
the column `process_rewards`.
"""

import functools

from arl import methods, ranges
from arl.kernels import segments, states
from arl.methods import compose


def _after(base: methods.Base, kernel) -> compose.Objective:
  """The base with a further step on its advantage."""
  objective = methods.objective(base)
  return objective._replace(
    advantage=(*compose.steps(objective.advantage), ('advantage', kernel))
  )


def slca(base: methods.Base = 'grpo.grpo') -> compose.Objective:
  """SLCA-GRPO (arXiv:2609.29050): rewards that stay on their segment.

  The scores of calls credit the turns that call, the outcome the last turn.
  Left out: its simulator of tools. Status: published, details from notes.
  """
  return methods.objective(base)._replace(advantage=segments.locked)


def draco(
  base: methods.Base = 'grpo.grpo', *, most: ranges.Positive = 5.0
) -> compose.Objective:
  """DRACO (arXiv:2609.04094): an advantage goes where its quality is.

  The scores of steps are shares of rubrics that a step passes, 0 to 1: see
  `arl.rewards.rubrics.draco_quality`. The bound is ours. Status: published,
  details from notes.
  """
  return _after(base, functools.partial(segments.by_quality, most=most))


def baton(
  base: methods.Base = 'grpo.grpo', *, kappa: ranges.NonNegative = 1.0
) -> compose.Objective:
  """BATON (arXiv:2609.19830): an advantage goes where feedback was earned.

  With a mean over trajectories, each of one mass however many rows and tokens
  it has, as `grpo.grpo` has it. Status: abstract and notes read, the formula of
  the attribution is ours.
  """
  return _after(base, functools.partial(segments.by_feedback, kappa=kappa))


def vps(
  base: methods.Base = 'grpo.grpo', *, coef: ranges.NonNegative = 0.3
) -> compose.Objective:
  """GRPO-VPS (arXiv:2604.20659): turns that move the belief in the answer.

  Adds coef times the change of the probability of the right answer over a turn,
  normalized over the turns of the group; `probing.beliefs` asks for it. That
  the change is normalized, by the population's deviation, is ours. Status:
  published, details from notes.
  """
  objective = methods.objective(base)
  return objective._replace(
    advantage=(
      ('turn_advantage', segments.shifts),
      *compose.steps(objective.advantage),
      ('advantage', functools.partial(states.plus, coef=coef)),
    )
  )
