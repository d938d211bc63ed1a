"""Policy gradients without a ratio: one update a rollout batch, on policy."""

import functools

from arl.kernels import advantages, aggregations, returns, surrogates
from arl.methods import compose


def reinforce(*, gamma: float = 1.0) -> compose.Objective:
  """REINFORCE with reward-to-go (Williams, Machine Learning 8, 1992).

  No baseline, no ratio, no clip: the plain estimator that the others improve.
  Status: published.
  """
  return compose.Objective(
    advantage=functools.partial(returns.reward_to_go, gamma=gamma),
    surrogate=surrogates.reinforce,
    aggregate=aggregations.sequence_sum,
  )


def rloo() -> compose.Objective:
  """REINFORCE leave-one-out (Ahmadian et al., arXiv:2402.14740).

  The baseline is the mean reward of the prompt's other rollouts; the whole
  sequence is one action. Left out: the paper's KL penalty in the reward, which
  is `ppo.penalized(rloo(), coef)`. Status: published.
  """
  return reinforce()._replace(advantage=advantages.leave_one_out)
