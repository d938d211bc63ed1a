"""Target distributions: what the policy's likelihoods are drawn to."""

import functools

from arl import ranges
from arl.kernels import (
  advantages,
  aggregations,
  likelihoods,
  ratios,
  regressions,
  surrogates,
)
from arl.methods import compose, reinforce, terms


def kimi_omd(*, tau: ranges.Positive = 0.5) -> compose.Objective:
  """Kimi k1.5's online mirror descent (arXiv:2501.12599, eq. 3).

  The squared difference of reward less group mean and tau times the log-ratio
  of the whole sequence; no clip, no deviation. Left out: the reset of the
  optimizer an iteration and the length reward. tau is not given in the paper;
  ours. Status: published.
  """
  return compose.Objective(
    advantage=advantages.group_center,
    ratio=ratios.trajectory,
    surrogate=functools.partial(regressions.mirror_descent, tau=tau),
    aggregate=aggregations.sequence_mean,
  )


def kimi_k2(
  *, tau: ranges.Positive = 0.5, ptx_coef: ranges.NonNegative = 0.1
) -> compose.Objective:
  """Kimi K2's RL objective (arXiv:2507.20534): k1.5's, and curated data.

  The samples as in `kimi_omd`; the demonstrations that the strategy
  `demonstrations.beside` mixes in are imitated. Left out: the token budget a
  task, which is `rollout.turn_tokens`, and the decay of the temperature.
  Coefficients are ours. Status: published.
  """
  samples = compose.only(kimi_omd(tau=tau), lambda demonstrated: ~demonstrated)
  return samples._replace(terms=(terms.demonstrated(ptx_coef),))


def lpo(*, tau: ranges.Positive = 1.0) -> compose.Objective:
  """List-wise policy optimization, forward KL (arXiv:2605.06139).

  The group's sequences as a list: their shares under the policy are drawn to
  softmax(R / (tau * deviation)), by the population deviation, so to first order
  it is GRPO. Status: published.
  """
  target = functools.partial(regressions.listwise_target, tau=tau)
  scaled = functools.partial(advantages.group_normalize, ddof=0, eps=0.0)
  return compose.Objective(
    advantage=(('advantage', scaled), ('target', target)),
    ratio=ratios.trajectory,
    surrogate=regressions.listwise_forward,
    aggregate=aggregations.group_mean,
  )


def lpo_reverse(*, tau: ranges.Positive = 1.0) -> compose.Objective:
  """LPO with the reverse KL (arXiv:2605.06139). Status: published."""
  return lpo(tau=tau)._replace(surrogate=regressions.listwise_reverse)


def lpo_center(*, tau: ranges.Positive = 1.0) -> compose.Objective:
  """LPO whose temperature is one number, as Dr. GRPO has no deviation.

  arXiv:2605.06139. Status: published.
  """
  target = functools.partial(regressions.listwise_target, tau=tau)
  return lpo()._replace(
    advantage=(('advantage', advantages.group_center), ('target', target))
  )


def lpo_mean() -> compose.Objective:
  """LPO whose temperature is the group's mean reward, as MaxRL.

  arXiv:2605.06139. Status: published.
  """
  return lpo()._replace(
    advantage=(
      ('advantage', advantages.group_center),
      ('target', regressions.listwise_target_by_mean),
    )
  )


def conspo(
  *, tau: ranges.Positive = 0.5, margin: ranges.NonNegative = 0.2
) -> compose.Objective:
  """Contrastive sequence-level policy optimization (arXiv:2605.12969).

  Each correct sequence of a group against all wrong ones, by mean log-prob; no
  ratio, so the data must be recent. tau and the margin are not public. Status:
  published form, constants ours.
  """
  return compose.Objective(
    advantage=(
      ('advantage', advantages.group_center),
      ('target', regressions.correct),
    ),
    surrogate=functools.partial(
      regressions.contrastive, tau=tau, margin=margin
    ),
    aggregate=aggregations.group_mean,
  )


def conspo_all(
  *, tau: ranges.Positive = 0.5, margin: ranges.NonNegative = 0.2
) -> compose.Objective:
  """ConSPO with all correct sequences in the denominator.

  Beside arXiv:2605.12969. Status: an unofficial description read, our
  definition.
  """
  return conspo()._replace(
    surrogate=functools.partial(
      regressions.contrastive_all, tau=tau, margin=margin
    )
  )


def garl(*, q: ranges.Fraction = 0.75) -> compose.Objective:
  """GARL on the Tsallis continuum (arXiv:2604.25907).

  The likelihood of the reference answer after a sample is its reward, against a
  leave-one-out baseline, amplified where the answer is unlikely: q = 0 is RL
  with that reward, q = 1 maximum likelihood of the answer. Needs the strategy
  `answers.with_reference`. Status: published.
  """
  return reinforce.reinforce()._replace(
    advantage=functools.partial(likelihoods.garl, q=q)
  )


def paft(*, q: ranges.Fraction = 0.75) -> compose.Objective:
  """PAFT on the Tsallis continuum (arXiv:2604.25907).

  Imitation of the samples in proportion to how likely each makes the answer,
  attenuated where the answer is unlikely. The paper draws them by that
  proportion; here it is the exact expectation. Status: published.
  """
  return reinforce.reinforce()._replace(
    advantage=functools.partial(likelihoods.paft, q=q)
  )


def pair_soft(
  *, clip: ranges.Positive = 0.2, kl_coef: ranges.NonNegative = 0.01
) -> compose.Objective:
  """Pair-GRPO, soft form (arXiv:2605.06375), on groups of two.

  The better response +1, the worse -1, PPO's clip on the sequence ratio, a KL
  to the policy that sampled. It is GRPO with the population deviation on two
  responses. Status: published.
  """
  mean = aggregations.sequence_mean
  return compose.Objective(
    advantage=advantages.pair_sign,
    ratio=ratios.trajectory,
    surrogate=functools.partial(surrogates.clip, low=clip, high=clip),
    aggregate=mean,
    terms=(terms.kl(kl_coef, to='old_logp', aggregate=mean),),
  )


def pair_hard(
  *,
  delta: ranges.Positive = 0.02,
  gamma: ranges.Fraction = 0.98,
  alpha: ranges.NonNegative = 0.5,
  beta: ranges.NonNegative = 0.01,
) -> compose.Objective:
  """Pair-GRPO, hard form: some mass moves from worst to best.

  arXiv:2605.06375. By ratios of sequences, so that lengths do not decide; by
  likelihoods it is `regressions.pair_hard`. Status: published; the distribution
  over a group is our reading.
  """
  return compose.Objective(
    advantage=(
      ('advantage', advantages.group_center),
      ('target', regressions.moved_mass),
    ),
    ratio=ratios.trajectory,
    surrogate=functools.partial(
      regressions.pair_hard_relative,
      delta=delta,
      gamma=gamma,
      alpha=alpha,
      beta=beta,
    ),
    aggregate=aggregations.group_mean,
  )
