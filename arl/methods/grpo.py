"""The GRPO family: group baselines, token ratios, no critic."""

import functools

from arl import ranges
from arl.kernels import (
  advantages,
  aggregations,
  credit,
  surrogates,
  weights,
)
from arl.methods import compose, filters, terms


def grpo(
  *, clip: ranges.Positive = 0.2, kl_coef: ranges.NonNegative = 0.04
) -> compose.Objective:
  """Group relative policy optimization (Shao et al., arXiv:2402.03300).

  Rewards normalized within the group, PPO's clip, k3 to the reference in the
  loss, a mean over sequences of token means. kl_coef = 0 drops the term and
  with it the reference model. DeepSeek-R1 (arXiv:2501.12948) is clip = 10,
  kl_coef = 0.001. Status: published; official code (verl, TRL) read for the
  deviation and its eps.
  """
  mean = aggregations.sequence_mean
  return compose.Objective(
    advantage=advantages.group_normalize,
    surrogate=functools.partial(surrogates.clip, low=clip, high=clip),
    aggregate=mean,
    terms=(terms.kl(kl_coef, aggregate=mean),) if kl_coef else (),
  )


def grpo_adaptive(
  *, low: ranges.NonNegative = 0.2, high: ranges.Positive = 0.28
) -> compose.Objective:
  """GRPO with a KL in the loss that is held near a target.

  The coefficient is the knob `kl_coef` (`knobs.adaptive_kl`; Ziegler et al.,
  arXiv:1909.08593, 2.2), the estimator k2, whose gradient is the KL's on
  policy. Status: published controller, verl's code read; the composition is
  ours.
  """
  mean = aggregations.sequence_mean
  return grpo(kl_coef=0)._replace(
    surrogate=functools.partial(surrogates.clip, low=low, high=high),
    terms=(terms.adaptive_kl(aggregate=mean),),
  )


def grpo_process(
  *, clip: ranges.Positive = 0.2, kl_coef: ranges.NonNegative = 0.04
) -> compose.Objective:
  """GRPO with process supervision (arXiv:2402.03300, 4.1.3).

  The advantage of a token is the sum of the rewards of the turns that end at
  or after it, normalized over all turns of the group. It reads the rewards of
  turns, or by `arl.on` those of a process reward model. Status: published.
  """
  return grpo(clip=clip, kl_coef=kl_coef)._replace(
    advantage=credit.group_process
  )


def dr_grpo(
  *, clip: ranges.Positive = 0.2, length: ranges.Positive = 3000
) -> compose.Objective:
  """Dr. GRPO (Liu et al., arXiv:2503.20783): GRPO done right.

  Changes: no division by the deviation (a bias towards very easy and very hard
  prompts) and none by each sequence's length (long wrong answers are punished
  less); `length` is the generation budget in tokens. No KL. Status: published,
  official code read.
  """
  return grpo(clip=clip, kl_coef=0)._replace(
    advantage=advantages.group_center,
    aggregate=functools.partial(aggregations.constant, length=length),
  )


def dapo(
  *, low: ranges.NonNegative = 0.2, high: ranges.Positive = 0.28
) -> compose.Objective:
  """DAPO's loss (Yu et al., arXiv:2503.14476).

  Changes: clip-higher, every token of the batch weighs the same, no KL. Its
  other parts stand beside it: dynamic sampling (`prompts.rounds`, or without it
  `filters.live_groups`), overlong shaping (`filters.overlong_shaped`) and
  overlong filtering (`filters.finished`). Status: published, official code
  read.
  """
  return grpo(kl_coef=0)._replace(
    surrogate=functools.partial(surrogates.clip, low=low, high=high),
    aggregate=aggregations.token_mean,
  )


def cispo(
  *, high: ranges.Positive = 4.0, low: ranges.Fraction = 1.0
) -> compose.Objective:
  """CISPO (MiniMax-M1, arXiv:2506.13585).

  Changes: the importance weight is truncated and detached, so clipping takes
  no token's gradient. The paper gives no number for the upper bound; 1 + high
  = 5 is that of ScaleRL (arXiv:2510.13786), and low = 1 leaves the lower side
  open. Status: published form, bound from another publication.
  """
  return dapo()._replace(
    surrogate=functools.partial(weights.clipped_weight, low=low, high=high)
  )


def liteppo(*, clip: ranges.Positive = 0.2) -> compose.Objective:
  """Lite PPO (Liu et al., "Tricks or Traps", arXiv:2508.08221).

  The group's mean and the batch's deviation, every token weighs the same;
  PPO's clip and nothing else: no critic, no KL, no clip-higher. Status:
  published, official code (TRL) read for the deviation.
  """
  return dapo(low=clip, high=clip)._replace(advantage=advantages.batch_scaled)


def grpo_pp(
  *,
  low: ranges.NonNegative = 0.2,
  high: ranges.Positive = 0.28,
  length: ranges.Positive = 3000,
) -> compose.Objective:
  """GRPO++ (Luo et al., "DeepSWE", Together AI and Agentica, 2025).

  Clip-higher, the leave-one-out baseline without a deviation, a constant
  length, no KL and no entropy bonus. Compact filtering, which takes episodes
  that hit a limit out before groups are compared, is `select.finished`.
  Status: published as a report, official code (rLLM) read.
  """
  return dr_grpo(length=length)._replace(
    advantage=advantages.leave_one_out,
    surrogate=functools.partial(surrogates.clip, low=low, high=high),
  )


def dual_clip(
  *,
  low: ranges.NonNegative = 0.2,
  high: ranges.Positive = 0.28,
  cap: ranges.OverOne = 3.0,
) -> compose.Objective:
  """DAPO's loss with dual clip (Ye et al., arXiv:1912.09729).

  A bad action's objective has a floor, cap times its advantage: past it a
  growing ratio brings no more gradient. Status: published, verl's code read.
  """
  return dapo()._replace(
    surrogate=functools.partial(
      surrogates.dual_clip, low=low, high=high, cap=cap
    )
  )


def two_sided(
  *,
  low: ranges.NonNegative = 0.2,
  high: ranges.Positive = 0.28,
  delta: ranges.OverOne = 4.0,
) -> compose.Objective:
  """DAPO's loss with two-sided clip (INTELLECT-2, arXiv:2505.07291).

  The ratio itself is cut at `delta`, so that a bad action's does not grow
  without limit. Status: published, TRL's code read.
  """
  return dapo()._replace(
    surrogate=functools.partial(
      surrogates.two_sided, low=low, high=high, delta=delta
    )
  )


def swe_rl() -> compose.Objective:
  """SWE-RL's objective (Wei et al., arXiv:2502.18449): plain GRPO.

  What is its own is the reward, the similarity of a patch to the true one and
  -1 for a patch that cannot be read; an environment gives it. Status:
  published, official code read.
  """
  return grpo()


def starpo_s(
  *,
  low: ranges.NonNegative = 0.2,
  high: ranges.Positive = 0.28,
  entropy_coef: ranges.NonNegative = 0.001,
) -> compose.Objective:
  """StarPO-S with GRPO's advantage (RAGEN, arXiv:2504.20073).

  Whole multi-turn trajectories, clip-higher, no KL, a small entropy bonus, and
  only the groups whose rewards vary most: `select.most_varied`. With a critic
  it is `ppo.starpo_s`. Status: published, official code read.
  """
  return dapo(low=low, high=high)._replace(terms=(terms.entropy(entropy_coef),))


def live_dapo(
  *, low: ranges.NonNegative = 0.2, high: ranges.Positive = 0.28
) -> compose.Objective:
  """DAPO whose dead groups leave the loss instead of the batch.

  The in-graph form of its dynamic sampling (arXiv:2503.14476, 3.2): groups
  without a spread of rewards leave numerator and denominator, and nothing is
  sampled anew. Status: published idea, our form.
  """
  return filters.live_groups(dapo(low=low, high=high))
