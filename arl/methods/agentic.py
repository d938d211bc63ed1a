"""Objectives whose unit is a turn: turn advantages and turn ratios."""

import functools
from typing import Any

from arl import ranges
from arl.kernels import (
  advantages,
  aggregations,
  credit,
  critics,
  gates,
  ratios,
  returns,
  shaping,
  surrogates,
)
from arl.methods import binding, compose, filters, grpo, terms

_TURN_MEAN = binding.on(aggregations.sequence_mean, seq='turn')


def turn_ppo(
  *,
  gamma: ranges.Fraction = 0.99,
  lam: ranges.Fraction = 0.9,
  clip: ranges.Positive = 0.2,
  value_coef: ranges.NonNegative = 0.5,
) -> compose.Objective:
  """Turn-PPO (arXiv:2512.17008): a turn is one action.

  GAE over turns, one ratio and one clip a turn, a critic of the states that
  turns begin in. With `ratios.token` the ratio is PPO's. Status: published,
  details from summaries.
  """
  estimate = functools.partial(credit.turn_gae, gamma=gamma, lam=lam)
  return compose.Objective(
    advantage=estimate,
    ratio=ratios.turn,
    surrogate=functools.partial(surrogates.clip, low=clip, high=clip),
    aggregate=_TURN_MEAN,
    terms=(_turn_critic(value_coef, gamma, lam),),
  )


def steppo(
  *,
  gamma: ranges.Fraction = 1.0,
  lam: ranges.Fraction = 1.0,
  low: ranges.NonNegative = 3e-4,
  high: ranges.Positive = 4e-4,
  kl_coef: ranges.NonNegative = 0.001,
  value_coef: ranges.NonNegative = 0.5,
) -> compose.Objective:
  """StepPO (arXiv:2604.18401): GSPO's ratio, a turn in place of a sequence.

  GAE over turns, whitened over turns, the mean log-ratio of a turn, GSPO's
  bounds, k3 in the loss, a critic. Surveys have bounds that follow the turn's
  index: that is `step_aligned_clip`. Status: official code read.
  """
  estimate = functools.partial(credit.turn_gae, gamma=gamma, lam=lam)
  penalty = (terms.kl(kl_coef, aggregate=_TURN_MEAN),) if kl_coef else ()
  return turn_ppo()._replace(
    advantage=(('advantage', estimate), ('advantage', credit.turn_whiten)),
    ratio=ratios.turn_mean,
    surrogate=functools.partial(surrogates.clip, low=low, high=high),
    terms=(_turn_critic(value_coef, gamma, lam), *penalty),
  )


def step_aligned_clip(
  *,
  low: ranges.NonNegative = 3e-4,
  high: ranges.Positive = 4e-4,
  kappa: ranges.NonNegative = 1.0,
  value_coef: ranges.NonNegative = 0.5,
) -> compose.Objective:
  """StepPO as surveys have it: bounds that widen from turn to turn.

  kappa = 0 is the published form (arXiv:2604.18401). Status: survey-described,
  our definition.
  """
  widening = functools.partial(
    surrogates.clip_by_turn, low=low, high=high, kappa=kappa
  )
  return steppo(value_coef=value_coef)._replace(surrogate=widening)


def step_grpo(
  *, clip: ranges.Positive = 0.2, kl_coef: ranges.NonNegative = 0.04
) -> compose.Objective:
  """StepGRPO (R1-VL, arXiv:2503.12937): GRPO on a reward with step parts.

  Its reward is one number a response, 1 for the answer, 0.1 times the share of
  key steps found and 1 for the form; here that of the environment plus 0.1
  times the mean of its scores of steps. Status: official code read.
  """
  shaped = functools.partial(shaping.with_step_share, coef=0.1)
  return filters.rewarded(grpo.grpo(clip=clip, kl_coef=kl_coef), shaped)


def step_grpo_return_to_go(
  *,
  clip: ranges.Positive = 0.2,
  kl_coef: ranges.NonNegative = 0.04,
  coef: ranges.NonNegative = 0.1,
) -> compose.Objective:
  """Step-level GRPO as a survey has it: returns of steps of one index compared.

  Each step earns coef times its score, and what it earns anyway; the
  return-to-go is normalized over the group's steps of one index. Status:
  survey-described, our definition.
  """
  shaped = functools.partial(shaping.with_process, coef=coef)
  objective = grpo.grpo(clip=clip, kl_coef=kl_coef)
  return filters.rewarded(
    objective._replace(advantage=credit.step_return_to_go), shaped
  )


def bi_level(
  *,
  turn_gamma: ranges.Fraction = 0.95,
  gamma: ranges.Fraction = 1.0,
  lam: ranges.Fraction = 1.0,
  low: ranges.NonNegative = 0.2,
  high: ranges.Positive = 0.28,
  value_coef: ranges.NonNegative = 0.5,
) -> compose.Objective:
  """Bi-level GAE (RAGEN, arXiv:2504.20073): turns first, tokens within them.

  Turns are discounted by turn_gamma, and what a turn returns is the reward of
  its tokens; advantages are whitened over tokens, ratios and clips a token's.
  Status: official code read.
  """
  numbers: dict[str, Any] = {
    'turn_gamma': turn_gamma,
    'gamma': gamma,
    'lam': lam,
  }
  estimate = functools.partial(credit.bi_level_gae, **numbers)
  target = functools.partial(credit.bi_level_return, **numbers)
  return compose.Objective(
    advantage=(('advantage', estimate), ('advantage', returns.whiten)),
    surrogate=functools.partial(surrogates.clip, low=low, high=high),
    aggregate=aggregations.token_mean,
    terms=(
      terms.value(critics.value_mse, value_coef, credit=(('returns', target),)),
    ),
  )


def grow(
  *, clip: ranges.Positive = 0.2, kl_coef: ranges.NonNegative = 0.01
) -> compose.Objective:
  """GROW (arXiv:2605.20246): each turn is a sample, with its episode's reward.

  Compared with all turns of the group, and the loss is a mean over turns. With
  a rollout.strategy that shows a turn only the recent past, as
  'rendered.multi_turn' by a template that forgets, no sample grows with the
  episode. Status: published, details from summaries.
  """
  penalty = (terms.kl(kl_coef, aggregate=_TURN_MEAN),) if kl_coef else ()
  return grpo.grpo(clip=clip, kl_coef=0)._replace(
    advantage=credit.outcome_of_turns,
    aggregate=_TURN_MEAN,
    terms=penalty,
  )


def espo(
  *,
  sharpness: ranges.Positive = 1.0,
  coef: ranges.NonNegative = 1.0,
  clip: ranges.Positive = 0.2,
  kl_coef: ranges.NonNegative = 0.04,
) -> compose.Objective:
  """ESPO (ODYSSE, arXiv:2607.25369): answers to the steps of an expert.

  Answers to one step are compared; coef times what the episode earned as a
  whole is added to all of them. The mean is over episodes, steps, answers and
  tokens. `expert_steps.espo` samples them. Status: published.
  """
  gated = functools.partial(gates.episode_reward, sharpness=sharpness)
  mean = aggregations.group_mean
  return grpo.grpo(clip=clip, kl_coef=0)._replace(
    advantage=(
      (
        'advantage',
        binding.on(advantages.group_normalize, group='step_of_group'),
      ),
      ('episode_reward', gated),
      ('advantage', functools.partial(gates.with_episode, coef=coef)),
    ),
    aggregate=mean,
    terms=(terms.kl(kl_coef, aggregate=mean),) if kl_coef else (),
  )


def espo_centered(
  *,
  sharpness: ranges.Positive = 1.0,
  coef: ranges.NonNegative = 1.0,
  clip: ranges.Positive = 0.2,
  kl_coef: ranges.NonNegative = 0.04,
) -> compose.Objective:
  """ESPO whose rewards of episodes are compared with those of the batch.

  arXiv:2607.25369 adds them as they are, which makes whatever was sampled in an
  episode that went well likelier. Status: our variant.
  """
  made = espo(sharpness=sharpness, coef=coef, clip=clip, kl_coef=kl_coef)
  step, gated, added = compose.steps(made.advantage)
  centred = 'episode_reward', gates.centered
  return made._replace(advantage=(step, gated, centred, added))


def _turn_critic(coef, gamma, lam) -> compose.Term:
  """The squared error at the first token of each turn, to its turn return."""
  target = functools.partial(credit.turn_return, gamma=gamma, lam=lam)
  term = terms.value(
    critics.value_mse,
    coef,
    credit=(('returns', target), ('kept', credit.turn_start)),
  )
  return term._replace(aggregate=compose.on_kept(term.aggregate))
