"""Policy gradients by a baseline, most of them without a ratio.

Without a ratio one update a rollout batch is on policy; more are not.
"""

import functools

from arl import ranges
from arl.kernels import advantages, aggregations, returns, surrogates
from arl.methods import compose, ppo


def reinforce(*, gamma: ranges.Fraction = 1.0) -> compose.Objective:
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
  is `ppo.penalized`. Status: published.
  """
  return reinforce()._replace(advantage=advantages.leave_one_out)


def remax() -> compose.Objective:
  """ReMax (Li et al., arXiv:2310.10505).

  The baseline is the reward of the greedy response to the prompt, for which
  the strategy `greedy.with_baseline` rolls it out. Left out: the KL penalty in
  the reward, which is `ppo.penalized`. Status: published, official code (verl)
  read.
  """
  return reinforce()._replace(advantage=advantages.greedy_baseline)


def opo() -> compose.Objective:
  """Optimal reward baseline (Hao et al., arXiv:2505.23585).

  The baseline is the group's mean reward weighted by length, which is optimal
  where a response's squared gradient grows with its length. On policy, no KL,
  no entropy bonus. Status: published, official code (verl) read.
  """
  return reinforce()._replace(
    advantage=advantages.length_weighted, aggregate=aggregations.token_mean
  )


def reinforce_pp(
  *, clip: ranges.Positive = 0.2, kl_coef: ranges.NonNegative = 0.01
) -> compose.Objective:
  """REINFORCE++ (Hu, arXiv:2501.03262).

  PPO without a critic: the KL is in the reward, the advantage is the return
  whitened over the whole batch, the ratio is clipped. Status: published,
  official code (OpenRLHF) and verl's read.
  """
  objective = compose.Objective(
    advantage=(('advantage', returns.reward_to_go), _WHITEN),
    surrogate=functools.partial(surrogates.clip, low=clip, high=clip),
    aggregate=aggregations.token_mean,
  )
  return ppo.penalized(objective, coef=kl_coef) if kl_coef else objective


def reinforce_pp_baseline(*, clip: ranges.Positive = 0.2) -> compose.Objective:
  """REINFORCE++ with a group baseline (arXiv:2501.03262).

  The group's mean is subtracted, then all tokens of the batch are whitened
  together: groups share one scale. Left out: the k2 term to a reference, which
  is `terms.kl`. Status: published, verl's code read.
  """
  return reinforce_pp(clip=clip, kl_coef=0)._replace(
    advantage=(('advantage', advantages.group_center), _WHITEN)
  )


_WHITEN = ('advantage', returns.whiten)
