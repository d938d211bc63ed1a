"""Distillation on the policy's own tokens: a teacher's word as advantage."""

import functools

import jax.numpy as jnp

from arl import methods, ranges, types
from arl.kernels import (
  aggregations,
  distillation,
  returns,
  surrogates,
  teaching,
  weights,
)
from arl.methods import binding, compose, grpo, offpolicy

# Seen, not minimized: the gap alone does not teach when differentiated, and the
# cross-entropy has no entropy term, so its best policy is the teacher's argmax.
MONITORS: types.Steps = (
  ('teacher_gap', lambda logp, teacher_logp: logp - teacher_logp),
  ('cross_entropy', lambda teacher_logp: -teacher_logp),
)
_SAMPLER = {'old_logp': 'rollout_logp'}


def opd(*, most: ranges.Positive = 10.0) -> compose.Objective:
  """On-policy distillation (Thinking Machines, 2025): sampled reverse KL.

  The advantage is log(teacher / sampler) of each token, without a discount and
  without the environment's reward; importance sampling, no clip. The limit
  `most` is ours. Status: published (a blog), official code read.
  """
  told = functools.partial(distillation.reverse_kl, most=most)
  base = _taught(grpo.dapo(), binding.on(told, **_SAMPLER))
  return offpolicy.anchored(base)._replace(surrogate=surrogates.importance)


def opd_to_go(
  *, gamma: ranges.Fraction = 1.0, most: ranges.Positive = 10.0
) -> compose.Objective:
  """`opd` whose tokens pay for what follows: the reverse KL of sequences.

  With gamma = 1 its gradient is that of the KL of whole sequences, with a
  higher variance. Status: published (a blog), official code read.
  """
  reward = functools.partial(distillation.reverse_kl, most=most)
  to_go = functools.partial(returns.reward_to_go, gamma=gamma)
  return opd()._replace(
    advantage=(
      ('distilled', binding.on(reward, **_SAMPLER)),
      ('advantage', binding.on(to_go, rewards='distilled')),
    )
  )


def by_position(
  base: methods.Base = 'distillation.opd', *, half: ranges.Positive = 512.0
) -> compose.Objective:
  """The base with a mean in which early tokens count more.

  Named by surveys, without a formula. Status: survey-described, our definition.
  """
  weigh = functools.partial(teaching.by_position, half=half)
  return _weighted(base, weigh)


def by_entropy(
  base: methods.Base = 'distillation.opd', *, least: ranges.NonNegative = 0.1
) -> compose.Objective:
  """The base with a mean in which tokens of high entropy count more.

  Named by surveys, without a formula. Status: survey-described, our definition.
  """
  weigh = functools.partial(teaching.by_entropy, least=least)
  return _weighted(base, weigh)


def exopd(
  *,
  scale: ranges.NonNegative = 1.25,
  clip: ranges.Positive = 0.2,
  high: ranges.Positive = 5.0,
) -> compose.Objective:
  """G-OPD, ExOPD by default (arXiv:2602.12125): past the teacher.

  The gain of the teacher over the reference is scaled; PPO's clip, importance
  weights of the sampler truncated at `high`. The reference is where the student
  began; the teacher's own base is better where there is one. Surveys scale the
  loss instead, which extrapolates nothing. Status: official code read.
  """
  advantage = functools.partial(distillation.extrapolated, scale=scale)
  base = _taught(grpo.dapo(low=clip, high=clip), advantage)
  return offpolicy.tis(base, high=high)


def exopd_routed(*, scale: ranges.NonNegative = 1.25) -> compose.Objective:
  """`exopd` with several teachers, each for the tasks of its domain.

  The column `teacher` says which; their log-probs are not averaged. One
  reference serves all. Status: published (arXiv:2602.12125), official code
  read.
  """
  chosen = ('teacher_logp', distillation.routed)
  made = exopd(scale=scale)
  steps = compose.steps(made.advantage)
  return made._replace(advantage=(chosen, *steps))


def glm5_cross_stage() -> compose.Objective:
  """GLM-5's cross-stage distillation (arXiv:2602.15763), as reported.

  The teachers are the checkpoints that earlier stages ended with, on the
  prompts of those stages, one rollout a prompt; clip-higher and IcePop stay.
  Status: published, details from summaries.
  """
  base = _taught(grpo.dapo(), distillation.reverse_kl)
  return offpolicy.icepop(base, high=2.0)


def reopold(
  *,
  share: ranges.OpenFraction = 0.2,
  unsure: ranges.Fraction = 0.5,
  switch: ranges.Fraction = 0.5,
) -> compose.Objective:
  """REOPOLD (arXiv:2603.11137): a bounded reward, first on what is agreed.

  The log-ratio to the teacher from a floor up; first without the tokens that
  it rejects, later on the tokens of high entropy alone. That it switches at one
  half is inferred. Status: published, details from summaries.
  """
  advantage = functools.partial(distillation.floored, share=share)
  kept = functools.partial(
    distillation.reopold_kept, share=share, unsure=unsure, switch=switch
  )
  base = _taught(grpo.dapo(), advantage)
  return compose.only(base._replace(surrogate=surrogates.importance), kept)


def privileged(*, high: ranges.Positive = 1.0) -> compose.Objective:
  """Self-distillation from a teacher that is told more: TRL's SDPO, sampled.

  The teacher is the policy, an average of it or its base with a solution or
  feedback in its context; the strategies of `arl.rollout.privileged` ask any of
  the three. The ratio's weight is at most 1 + high. Beware: up to
  17% of relative accuracy is reported lost (arXiv:2607.05184), as tokens that
  reconsider are trained away; see `guarded`. Status: official code (TRL) read.
  """
  base = _taught(grpo.dapo(), distillation.reverse_kl)
  return base._replace(
    surrogate=functools.partial(weights.clipped_weight, high=high)
  )


def guarded(
  base: methods.Base = 'distillation.privileged',
) -> compose.Objective:
  """The base without the loss of tokens that reconsider.

  'wait', 'let me check' and the like, in the column `reconsidering`, which
  `rollout.reconsidering` fills; two metrics add up to the mean gap to the
  teacher: on such tokens and on others.
  The guard is ours, against what arXiv:2607.05184 reports. Status: ours.
  """

  def gap_on(logp, teacher_logp, reconsidering):
    return jnp.where(reconsidering, teacher_logp - logp, 0)

  def gap_off(logp, teacher_logp, reconsidering):
    return jnp.where(reconsidering, 0, teacher_logp - logp)

  objective = methods.objective(base)
  seen = (('reconsidering', gap_on), ('others', gap_off))
  return compose.only(
    objective._replace(monitors=(*objective.monitors, *seen)),
    lambda reconsidering: ~reconsidering,
  )


def seed(
  base: methods.Base = 'grpo.dapo',
  *,
  coef: ranges.NonNegative = 0.01,
  sharpness: ranges.Positive = 5.0,
) -> compose.Objective:
  """SEED (arXiv:2607.14777): the base, and a pull to hindsight skills.

  `teacher_logp` is that of the policy with a skill in its context, which it
  wrote about the finished trajectory: `privileged.told_skill`, after a stage
  that teaches it to write them (`skills.make`); see
  experiments/pipelines/seed.py. Where it wrote none there is no pull. Status:
  published, details from summaries.
  """
  loss = functools.partial(distillation.hindsight, sharpness=sharpness)
  term = compose.Term(
    'hindsight', (('loss', loss),), aggregations.token_mean, coef=coef
  )
  objective = methods.objective(base)
  return objective._replace(terms=(*objective.terms, term))


def sod(
  base: methods.Base = 'grpo.dapo',
  *,
  coef: ranges.NonNegative = 1.0,
  delta: ranges.NonNegative = 0.5,
) -> compose.Objective:
  """SOD (arXiv:2605.07725): step-wise distillation beside the base's credit.

  Steps in which the policy has drifted from the teacher weigh less. Defaults of
  the config; one script has delta = 0.2. Status: official code read.
  """
  weigh = functools.partial(teaching.step_weights, delta=delta)
  return _beside(base, weigh, functools.partial(teaching.beside, coef=coef))


def atod(
  base: methods.Base = 'grpo.dapo', *, least: ranges.Fraction = 0.1
) -> compose.Objective:
  """ATOD (arXiv:2606.27814): from the teacher to the reward, by turns.

  Turns of disagreement or of high entropy weigh more; the teacher fades out
  linearly as the base's credit fades in. Status: published, details from
  summaries; the scale of the weights is ours.
  """
  mix = functools.partial(teaching.annealed, least=least)
  return _beside(base, teaching.urgency, mix)


def turnopd() -> compose.Objective:
  """TurnOPD (arXiv:2607.05804): `opd` from a mean of tokens to one of turns.

  Left out: the control of how many turns are rolled out, which is
  `rollout.max_turns`. Status: published, details from summaries.
  """
  return opd()._replace(aggregate=teaching.turn_annealed)


def _taught(base: compose.Objective, advantage) -> compose.Objective:
  """The base on a teacher's word alone."""
  monitors = (*base.monitors, *MONITORS)
  return base._replace(advantage=advantage, monitors=monitors)


def _weighted(base, weigh) -> compose.Objective:
  objective = methods.objective(base)
  return objective._replace(
    advantage=(*compose.steps(objective.advantage), ('importance', weigh)),
    aggregate=aggregations.weighted,
  )


def _beside(base, weigh, mix) -> compose.Objective:
  """The base's advantage, mixed with a teacher's word by turns."""
  objective = methods.objective(base)
  steps = (
    *compose.steps(objective.advantage),
    ('distilled', distillation.reverse_kl),
    ('turn_weight', weigh),
    ('advantage', mix),
  )
  monitors = (*objective.monitors, *MONITORS)
  return objective._replace(advantage=steps, monitors=monitors)
