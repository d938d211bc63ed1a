"""Credit of rollouts that go back into a failure: see `arl.rollout.resets`."""

from arl import methods
from arl.kernels import advantages
from arl.methods import binding, compose


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
