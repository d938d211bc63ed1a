"""Credit of rollouts that branch: see `arl.rollout.branching` for these."""

import functools

from arl import methods, ranges
from arl.kernels import advantages, aggregations, surrogates, trees
from arl.methods import binding, compose, grpo


def tree_grpo(
  *, clip: ranges.Positive = 0.2, kl_coef: ranges.NonNegative = 0.001
) -> compose.Objective:
  """Tree-GRPO (arXiv:2509.21240): leaves compared in their tree, and beyond.

  Every path from the root to a leaf is a sequence; what paths share gets the
  sum of what they do. Status: published, official code read, which departs from
  the paper: `tree_grpo_within`.
  """
  return grpo.grpo(clip=clip, kl_coef=kl_coef)._replace(
    advantage=trees.tree_normalize
  )


def tree_grpo_within(
  *, clip: ranges.Positive = 0.2, kl_coef: ranges.NonNegative = 0.001
) -> compose.Objective:
  """Tree-GRPO as its code runs: leaves compared in their tree alone.

  The code normalizes twice, over the prompt and then over the tree
  (arXiv:2509.21240); the first changes no order and no spread, and is lost.
  Status: official code read.
  """
  within = binding.on(advantages.group_normalize, group='tree')
  return grpo.grpo(clip=clip, kl_coef=kl_coef)._replace(advantage=within)


def arpo_hard(base: methods.Base = 'grpo.grpo') -> compose.Objective:
  """The base; what paths share gets the mean of their advantages.

  The hard form of ARPO (arXiv:2507.19849); its soft form, the default, is the
  base alone on the same rollouts. Status: published, official code read.
  """
  objective = methods.objective(base)
  return objective._replace(
    advantage=(
      *compose.steps(objective.advantage),
      ('advantage', trees.node_mean),
    )
  )


def appo(
  base: methods.Base = 'grpo.grpo', *, kappa: ranges.NonNegative = 1.0
) -> compose.Objective:
  """APPO (arXiv:2606.12384): what came before a choice that mattered.

  Rollouts branch inside turns, at tokens where the policy was uncertain and has
  moved from the reference (`appo.two`, with config.model.teacher as that). A
  stretch between branches is scaled by how much the outcomes of those that went
  on from it differ. Status: abstract read, the formulas are ours.
  """
  objective = methods.objective(base)
  scaled = functools.partial(trees.by_branching, kappa=kappa)
  return objective._replace(
    advantage=(*compose.steps(objective.advantage), ('advantage', scaled))
  )


def grpo_ma(
  *, low: ranges.NonNegative = 0.2, high: ranges.Positive = 0.2
) -> compose.Objective:
  """GRPO-MA (arXiv:2509.24494): several answers to each thought.

  A thought is compared by the mean of its answers, an answer with all answers;
  a shared token weighs as one. Left out: the paper's two means, of thoughts and
  of answers, added up: here it is one over tokens. Status: published, recalled.
  """
  return compose.Objective(
    advantage=(
      ('advantage', trees.beginnings),
      ('importance', trees.once_of_copies),
    ),
    surrogate=functools.partial(surrogates.clip, low=low, high=high),
    aggregate=aggregations.weighted,
  )
