"""Advantages that keep diversity or weigh signs: over a base objective."""

import functools

from arl import methods, ranges
from arl.kernels import advantages
from arl.methods import compose


def signbalance(
  base: methods.Base = 'grpo.dapo', *, scale: ranges.Positive = 1.0
) -> compose.Objective:
  """SignBalance (arXiv:2609.04063): only the sign of the verifier counts.

  Correct responses get +scale, wrong ones what balances them in the group. A
  group of one sign gets 0, which the paper leaves undefined. Status: published.
  """
  return methods.objective(base)._replace(
    advantage=functools.partial(advantages.sign_balanced, scale=scale)
  )


def ucpo(
  base: methods.Base = 'grpo.grpo', *, tau: ranges.Fraction = 0.2
) -> compose.Objective:
  """Uniform-correct policy optimization (arXiv:2605.00365).

  Among the correct responses of a group the advantage moves towards the less
  likely ones. A survey has it as a penalty in the reward; the code weighs the
  advantage. Status: official code read.
  """
  return _then(base, functools.partial(advantages.rare_correct, tau=tau))


def eapo(
  base: methods.Base = 'grpo.dapo',
  *,
  positive: ranges.Fraction = 0.5,
  negative: ranges.Fraction = 0.5,
) -> compose.Objective:
  """Entropy-aware policy optimization (arXiv:2604.11056; HAPO in version 2).

  A sequence's advantage is shared out by the entropy of its tokens, signs kept.
  Status: mechanism published, formula ours.
  """
  weigh = functools.partial(
    advantages.entropy_weighted, positive=positive, negative=negative
  )
  return _then(base, weigh)


def pass_at_k(base: methods.Base = 'grpo.dapo') -> compose.Objective:
  """Only a group's best response is reinforced, by its lead over the second.

  An objective of the best of k samples (Tang et al., arXiv:2503.19595; verl's
  GRPO pass@k, without its division by the deviation). Status: third-party code
  read.
  """
  return methods.objective(base)._replace(advantage=advantages.best_of_group)


def pass_at_k_scaled(base: methods.Base = 'grpo.dapo') -> compose.Objective:
  """`pass_at_k` over the deviation of the group, as verl has it by default.

  After arXiv:2503.19595. Status: third-party code read.
  """
  return _then(pass_at_k(base), advantages.group_scale)


def _then(base, kernel) -> compose.Objective:
  """The base with a last step that changes its advantage."""
  objective = methods.objective(base)
  steps = compose.steps(objective.advantage)
  return objective._replace(advantage=(*steps, ('advantage', kernel)))
