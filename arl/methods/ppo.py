"""PPO with a critic: its estimators of advantage and its value losses."""

import functools

from arl import methods, ranges, types
from arl.kernels import (
  aggregations,
  critics,
  returns,
  shaping,
  surrogates,
  traces,
)
from arl.methods import binding, compose, filters, offpolicy, soft, terms

WHITEN = ('advantage', returns.whiten)


def ppo(
  *,
  gamma: ranges.Fraction = 1.0,
  lam: ranges.Fraction = 0.95,
  clip: ranges.Positive = 0.2,
  kl_coef: ranges.NonNegative = 0.05,
  value_coef: ranges.NonNegative = 0.5,
  value_clip: ranges.Positive = 0.2,
  entropy_coef: ranges.NonNegative = 0.0,
) -> compose.Objective:
  """PPO for language models (arXiv:1707.06347; arXiv:2203.02155 for the KL).

  Token-level GAE over the policy's own tokens, whitened over the batch, a
  clipped value loss, the KL to the reference as a penalty in the reward.
  Status: published, official code (verl) read.
  """
  estimate = functools.partial(returns.gae, gamma=gamma, lam=lam)
  value = terms.critic(value_coef, gamma, lam, value_clip)
  bonus = (terms.entropy(entropy_coef),) if entropy_coef else ()
  objective = compose.Objective(
    advantage=(('advantage', estimate), WHITEN),
    surrogate=functools.partial(surrogates.clip, low=clip, high=clip),
    aggregate=aggregations.token_mean,
    terms=(value, *bonus),
  )
  return penalized(objective, coef=kl_coef) if kl_coef else objective


def penalized(
  base: methods.Base = 'grpo.dapo', *, coef: ranges.NonNegative = 0.05
) -> compose.Objective:
  """The base on rewards less coef * (old_logp - ref_logp) a token.

  The KL penalty of arXiv:2203.02155, before any return or group statistic.
  Status: published.
  """
  shaped = functools.partial(shaping.kl_in_reward, coef=coef)
  return filters.rewarded(methods.objective(base), shaped)


def vc_ppo(
  *,
  lam: ranges.Fraction = 0.95,
  low: ranges.NonNegative = 0.2,
  high: ranges.Positive = 0.2,
  value_coef: ranges.NonNegative = 0.5,
  value_clip: ranges.Positive = 0.5,
) -> compose.Objective:
  """VC-PPO's decoupled GAE (Yuan et al., arXiv:2503.01491).

  The critic learns Monte-Carlo returns (its lam is 1), the policy's lam is
  below 1. Its critic is pretrained: a run of `critics.alone` before. Status:
  published.
  """
  return ppo(lam=lam, kl_coef=0)._replace(
    surrogate=functools.partial(surrogates.clip, low=low, high=high),
    terms=(terms.critic(value_coef, 1.0, 1.0, value_clip),),
  )


def vapo(
  *,
  alpha: ranges.Positive = 0.05,
  low: ranges.NonNegative = 0.2,
  high: ranges.Positive = 0.28,
  value_coef: ranges.NonNegative = 0.5,
  value_clip: ranges.Positive = 0.5,
  positive_coef: ranges.NonNegative = 0.1,
) -> compose.Objective:
  """VAPO (Yue et al., arXiv:2504.05118): value-based, augmented PPO.

  VC-PPO with a lam that grows with the length of a sequence, clip-higher, every
  token weighing the same, and the likelihood of correct samples as a further
  term. Surveys have it variance-aware, or GRPO with a light critic; it is
  neither. Its critic is pretrained, by a run of `critics.alone` before; groups
  are `prompts.samples`. Status: published.
  """
  estimate = functools.partial(
    returns.length_adaptive_gae, gamma=1.0, alpha=alpha
  )
  objective = vc_ppo(
    low=low, high=high, value_coef=value_coef, value_clip=value_clip
  )
  more = (terms.positive(positive_coef),) if positive_coef else ()
  return objective._replace(
    advantage=(('advantage', estimate), WHITEN),
    terms=(*objective.terms, *more),
  )


def categorical(
  *,
  low: ranges.Finite = 0.0,
  high: ranges.Finite = 1.0,
  lam: ranges.Fraction = 0.95,
  clip: ranges.Positive = 0.2,
  value_coef: ranges.NonNegative = 0.5,
) -> compose.Objective:
  """PPO whose critic classifies (arXiv:2608.02181; HL-Gauss, arXiv:2403.03950).

  The critic's bins lie on [low, high], the range of returns; how many there are
  is config.model.value_bins. Its value is the mean of the bins' centers. The
  first paper's bins and target are not public; HL-Gauss is used. Status:
  published form, third-party code read.
  """
  value = functools.partial(critics.expected_value, low=low, high=high)
  read = ('old_value', value)
  target = functools.partial(returns.lambda_return, gamma=1.0, lam=1.0)
  loss = functools.partial(critics.categorical, low=low, high=high)
  critic = terms.value(loss, value_coef, credit=(read, ('returns', target)))
  objective = ppo(lam=lam, clip=clip, kl_coef=0)
  return objective._replace(
    advantage=(read, *compose.steps(objective.advantage)),
    terms=(_watched(critic, low, high),),
  )


def vtrace(
  *,
  lam: ranges.Fraction = 1.0,
  delta_cap: ranges.Positive = 1.0,
  trace_cap: ranges.Positive = 1.0,
  value_coef: ranges.NonNegative = 0.5,
) -> compose.Objective:
  """V-trace actor-critic (IMPALA, Espeholt et al., arXiv:1802.01561).

  Values and advantages corrected for the policy that sampled, by truncated
  ratios of `old_logp` to `rollout_logp`; a plain policy gradient. Left out: the
  entropy bonus, which is `terms.entropy`. Status: published, rlax read.
  """
  target = functools.partial(
    traces.vtrace,
    gamma=1.0,
    lam=lam,
    delta_cap=delta_cap,
    trace_cap=trace_cap,
  )
  credit = ('returns', target)
  estimate = functools.partial(
    traces.vtrace_advantage, gamma=1.0, cap=delta_cap
  )
  return compose.Objective(
    advantage=(credit, ('advantage', estimate)),
    surrogate=surrogates.reinforce,
    aggregate=aggregations.token_mean,
    terms=(terms.value(critics.value_mse, value_coef, credit=(credit,)),),
  )


def psgpo(
  *, coef: ranges.Finite = 1.0, lam: ranges.Fraction = 0.95
) -> compose.Objective:
  """Process-supervised PPO: scores of steps and the outcome in one reward.

  Surveys name it; no publication gives a formula. Status: survey-described,
  our definition.
  """
  shaped = functools.partial(shaping.with_process, coef=coef)
  return filters.rewarded(ppo(lam=lam, kl_coef=0), shaped)


def reft(
  *, kl_coef: ranges.NonNegative = 0.05, value_coef: ranges.NonNegative = 5.0
) -> compose.Objective:
  """ReFT's second stage (Luong et al., arXiv:2401.08967): PPO after a warm-up.

  KL to the warmed-up policy in the reward (0.05 for thoughts in words, 0.01 for
  code), a heavy value loss. The partial reward of 0.1 for a wrong answer that
  can be read is the environment's. Status: published, official code read.
  """
  return ppo(kl_coef=kl_coef, value_coef=value_coef)


def starpo(
  *, clip: ranges.Positive = 0.2, value_coef: ranges.NonNegative = 0.5
) -> compose.Objective:
  """StarPO with PPO (RAGEN, arXiv:2504.20073).

  State-Thinking-Actions-Reward policy optimization: whole multi-turn
  trajectories, the loss on the agent's tokens, gamma = lam = 1. Its other form
  is `grpo.grpo`. Status: published, official code read.
  """
  return ppo(lam=1.0, clip=clip, kl_coef=0, value_coef=value_coef)


def starpo_s(
  *,
  low: ranges.NonNegative = 0.2,
  high: ranges.Positive = 0.28,
  value_coef: ranges.NonNegative = 0.5,
  entropy_coef: ranges.NonNegative = 0.001,
) -> compose.Objective:
  """StarPO-S with PPO: clip-higher, a critic, an entropy bonus, no KL.

  RAGEN, arXiv:2504.20073. It trains on the groups whose rewards vary most:
  `select.most_varied`. Status: published, official code read.
  """
  objective = starpo(value_coef=value_coef)
  return objective._replace(
    surrogate=functools.partial(surrogates.clip, low=low, high=high),
    terms=(*objective.terms, terms.entropy(entropy_coef)),
  )


def sao(
  *,
  low: ranges.Fraction = 0.2,
  high: ranges.Positive = 0.28,
  alpha: ranges.Positive = 0.05,
  value_coef: ranges.NonNegative = 0.5,
) -> compose.Objective:
  """Single-rollout asynchronous optimization (GLM-5.2, arXiv:2607.07508).

  A critic in place of a group, so one rollout a prompt; length-adaptive GAE;
  the double-sided ratio to the sampler. Attention of the critic is frozen by
  config.model.critic = 'own' and config.updates.frozen =
  'value_head/trunk/layers/.*/attention/.*'; two value updates an update of the
  policy, and first steps without the policy, are `optimizers.critic_first`. See
  experiments/sao.py. Status: abstract and third-party code read; the band is
  that of `offpolicy.dis`.
  """
  return offpolicy.dis(
    vapo(alpha=alpha, value_coef=value_coef, positive_coef=0),
    low=low,
    high=high,
  )


def bpco(
  *,
  lowest: ranges.Finite = 0.0,
  highest: ranges.Finite = 1.0,
  alpha: ranges.Positive = 0.4,
  bound: ranges.Fraction = 0.2,
  value_coef: ranges.NonNegative = 0.5,
) -> compose.Objective:
  """Best-practice critic optimization (arXiv:2608.23566).

  DPPO's actor, a value bounded to the range of rewards, which `lowest` and
  `highest` give, Monte-Carlo targets, length-adaptive GAE that is not whitened.
  Returns outside the range are cut, and `value/outside` says how many.
  Left out: privileged inputs of the critic, since a column is aligned with what
  the policy read, and a reference answer before it is not. Status: abstract and
  third-party code read, which gives alpha.
  """
  limit = functools.partial(critics.bounded, low=lowest, high=highest)
  read = ('old_value', binding.on(limit, value='old_value'))
  estimate = functools.partial(
    returns.length_adaptive_gae, gamma=1.0, alpha=alpha
  )
  target = functools.partial(returns.lambda_return, gamma=1.0, lam=1.0)
  cut = functools.partial(critics.limited, low=lowest, high=highest)
  value = terms.value(
    binding.on(critics.value_mse, returns='target'),
    value_coef,
    credit=(read, ('returns', target)),
    before=(('value', limit), ('target', cut)),
  )
  actor = soft.dppo('grpo.dapo', low=bound, high=bound)
  return actor._replace(
    advantage=(read, ('advantage', estimate)),
    terms=(_watched(value, lowest, highest),),
  )


def mc_value(*, kernel: types.Kernel = critics.value_mse) -> compose.Term:
  """The critic alone on Monte-Carlo returns: pretraining it (VC-PPO, VAPO).

  Status: published (arXiv:2503.01491).
  """
  target = functools.partial(returns.reward_to_go, gamma=1.0)
  return terms.value(kernel, 1.0, credit=(('returns', target),))


def _watched(critic: compose.Term, low: float, high: float) -> compose.Term:
  """The critic, with the share of returns outside its range as a metric."""
  outside = functools.partial(critics.outside, low=low, high=high)
  return critic._replace(monitors=(*critic.monitors, ('outside', outside)))
