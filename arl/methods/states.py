"""Credit by the states that a group's turns have in common.

Each needs an environment that tells what it shows (`Env.anchor`). Where no
state is met twice they are what their base is without the step's part, or close
to it: watch `shared`, the share of tokens whose state others met too.
"""

import functools

from arl import methods, ranges, types
from arl.kernels import advantages, states
from arl.methods import compose, grpo


def _stepped(
  base: compose.Objective, step: types.Kernel, coef: float
) -> compose.Objective:
  """The base with the advantage of a step added, times coef."""
  return base._replace(
    advantage=(
      ('turn_advantage', step),
      ('shared', states.shared),
      *compose.steps(base.advantage),
      ('advantage', functools.partial(states.plus, coef=coef)),
    ),
    monitors=(*base.monitors, ('shared', lambda shared: shared)),
  )


def gigpo(
  *,
  gamma: ranges.Fraction = 0.95,
  coef: ranges.NonNegative = 1.0,
  clip: ranges.Positive = 0.2,
  kl_coef: ranges.NonNegative = 0.01,
) -> compose.Objective:
  """GiGPO, group in group (arXiv:2505.10978): episodes and states compared.

  GRPO's advantage, and coef times the return-to-go of a turn normalized over
  the turns of the group that answer one state. Statistics of episodes count
  each once, where the code counts each of its turns; a lone episode gives 0,
  where the code gives its reward. Left out: the form without deviations, and
  states that are only similar. Surveys have another method by this name:
  `gigpo_across`. Status: published, official code read.
  """
  step = functools.partial(states.return_to_go, gamma=gamma)
  return _stepped(grpo.grpo(clip=clip, kl_coef=kl_coef), step, coef)


def gigpo_across(
  base: methods.Base = 'grpo.grpo', *, coef: ranges.NonNegative = 0.1
) -> compose.Objective:
  """What a survey calls GiGPO: prompts of a batch compared as well.

  Adds coef times the mean reward of the group, normalized over the groups of
  the batch. That is one constant for all samples of a prompt: whatever was
  sampled becomes likelier on easy prompts and less likely on hard ones, and no
  answer is told from another. For comparison alone. Status: survey-described.
  """
  objective = methods.objective(base)
  across = functools.partial(advantages.across_groups, coef=coef)
  return objective._replace(
    advantage=(*compose.steps(objective.advantage), ('advantage', across))
  )


def g2po(
  *,
  gamma: ranges.Fraction = 0.95,
  coef: ranges.NonNegative = 1.0,
  clip: ranges.Positive = 0.2,
  kl_coef: ranges.NonNegative = 0.01,
) -> compose.Objective:
  """G2PO (arXiv:2606.22995): values of states over the group's graph.

  A state is worth the mean of what came of its visits. Added to GRPO's
  advantage, times coef: where a turn leads, beside others that leave its state,
  and what it gains, beside all turns of the group. Left out: the penalty of
  actions that the environment cannot read, which is the environment's. Status:
  official code read.
  """
  step = functools.partial(states.way_out_and_gain, gamma=gamma)
  return _stepped(grpo.grpo(clip=clip, kl_coef=kl_coef), step, coef)


def t_star(
  *,
  coef: ranges.NonNegative = 1.0,
  clip: ranges.Positive = 0.2,
  kl_coef: ranges.NonNegative = 0.01,
) -> compose.Objective:
  """The tree credit of T-STAR (arXiv:2604.07165).

  Trajectories are merged where they meet; a state is worth the mean outcome of
  its visits, and a turn its change, normalized over the group. Ours: states are
  equal, where the paper has them close. Left out: grafted thoughts and their
  preference loss, which generates. Status: published, details from summaries.
  """
  step = functools.partial(states.gain, gamma=1.0)
  return _stepped(grpo.grpo(clip=clip, kl_coef=kl_coef), step, coef)


def graphpo(
  *,
  efficiency: ranges.NonNegative = 0.2,
  coef: ranges.NonNegative = 1.0,
  clip: ranges.Positive = 0.2,
  kl_coef: ranges.NonNegative = 0.01,
) -> compose.Objective:
  """The credit of GraphPO (arXiv:2606.18954) over the graph of states.

  Out of a state turns are compared by what the next is worth, into a state by
  the tokens that it took to get there, times `efficiency`. Left out: classes by
  summaries, and rollouts that are spent on rare ones. Status: abstract read,
  the formulas are ours.
  """
  step = functools.partial(states.way_out_and_shorter, efficiency=efficiency)
  return _stepped(grpo.grpo(clip=clip, kl_coef=kl_coef), step, coef)


def trca(
  *,
  gamma: ranges.Fraction = 0.95,
  coef: ranges.NonNegative = 1.0,
  clip: ranges.Positive = 0.2,
  kl_coef: ranges.NonNegative = 0.01,
) -> compose.Objective:
  """TRCA (arXiv:2608.16156): rubrics of transitions, credited by state.

  Added to GRPO's advantage, times coef: what a turn's rubric pays from it on
  and the outcome from afar, normalized over the turns that answer one state, so
  that a group that failed altogether still learns. The environment's scores of
  steps are the rubric's: `arl.rewards.rubrics.trca`. Status: published, details
  from notes.
  """
  step = functools.partial(states.completed_advantage, gamma=gamma)
  return _stepped(grpo.grpo(clip=clip, kl_coef=kl_coef), step, coef)
