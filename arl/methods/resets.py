"""Credit of rollouts that go back into a failure.

See `arl.rollout.resets` and `arl.rollout.retries` for these.
"""

import functools

from arl import methods, ranges
from arl.kernels import advantages
from arl.methods import binding, compose, offpolicy, terms


def rrpo(base: methods.Base = 'grpo.grpo') -> compose.Objective:
  """RRPO, random resets (arXiv:2605.25507): ends of one beginning compared.

  From a state of a failed episode, drawn at random, the policy plays on a few
  times; these are compared among themselves, the episodes from the prompt among
  themselves as in GRPO. What lies before the reset is not on the mask. The
  paper leaves the clip out, which on policy changes nothing. Status: published,
  details from notes.
  """
  within = binding.on(advantages.group_normalize, group='tree')
  return methods.objective(base)._replace(advantage=within)


def srpo(base: methods.Base = 'grpo.grpo') -> compose.Objective:
  """SRPO, self-resets (arXiv:2605.25507): RRPO that chooses where.

  The policy itself is shown its failure and names the first wrong turn, before
  which it is reset: the rollouts of `resets.srpo`; the loss is RRPO's. What it
  names it is not trained on. Status: published, details from notes.
  """
  return rrpo(base)


def r3l(
  base: methods.Base = 'grpo.grpo',
  *,
  alpha: ranges.Positive = 2.0,
  cap: ranges.Positive = 2.0,
  coef: ranges.NonNegative = 0.05,
) -> compose.Objective:
  """R3L (arXiv:2601.03715): failures that are reflected on and tried again.

  A retry is in the group of what it retried. It was sampled behind the
  reflection and is trained without, by truncated importance. What a failure and
  its retry have in common before the turn that was tried again has no loss;
  what is better than its group counts alpha times; and reflections that helped,
  with the retries behind them, are imitated, times coef. Alpha, cap and coef
  are ours. Status: published, details from notes.
  """
  objective = methods.objective(base)
  amplified = functools.partial(advantages.amplified, alpha=alpha)
  objective = objective._replace(
    advantage=(
      *compose.steps(objective.advantage),
      ('advantage', amplified),
    )
  )
  objective = compose.only(
    offpolicy.tis(objective, high=cap), lambda pivotal: pivotal
  )
  imitated = terms.demonstrated(coef)
  return objective._replace(terms=(*objective.terms, imitated))
