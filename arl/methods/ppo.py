"""PPO with a critic, and the KL penalty in the reward."""

import functools

from arl.kernels import aggregations, returns, shaping, surrogates
from arl.methods import compose, terms


def ppo(
  *,
  gamma: float = 1.0,
  lam: float = 0.95,
  clip: float = 0.2,
  kl_coef: float = 0.05,
  value_coef: float = 0.5,
  value_clip: float = 0.2,
  entropy_coef: float = 0.0,
) -> compose.Objective:
  """PPO for language models (arXiv:1707.06347; arXiv:2203.02155 for the KL).

  Token-level GAE over the policy's own tokens, whitened over the batch, a
  clipped value loss, the KL to the reference as a penalty in the reward.
  Status: published, official code (verl) read.
  """
  shaped = (
    (('rewards', functools.partial(shaping.kl_in_reward, coef=kl_coef)),)
    if kl_coef
    else ()
  )
  estimate = functools.partial(returns.gae, gamma=gamma, lam=lam)
  value = terms.critic(value_coef, gamma, lam, value_clip)
  bonus = (terms.entropy(entropy_coef),) if entropy_coef else ()
  return compose.Objective(
    advantage=(
      *shaped,
      ('advantage', estimate),
      ('advantage', returns.whiten),
    ),
    surrogate=functools.partial(surrogates.clip, low=clip, high=clip),
    aggregate=aggregations.token_mean,
    terms=(value._replace(credit=(*shaped, *value.credit)), *bonus),
  )


def penalized(
  objective: compose.Objective, *, coef: float
) -> compose.Objective:
  """The objective on rewards less coef * (old_logp - ref_logp) a token."""
  shaped = ('rewards', functools.partial(shaping.kl_in_reward, coef=coef))
  return objective._replace(
    advantage=(shaped, *compose.steps(objective.advantage))
  )
