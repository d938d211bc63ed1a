"""Weighted likelihoods and soft gates in place of a hard clip."""

import functools

from arl import methods, ranges
from arl.kernels import (
  advantages,
  aggregations,
  ratios,
  surrogates,
  weights,
)
from arl.methods import binding, compose, grpo


def sapo(
  *,
  tau_positive: ranges.Positive = 1.0,
  tau_negative: ranges.Positive = 1.05,
) -> compose.Objective:
  """Soft adaptive policy optimization (Gao et al., arXiv:2511.20347).

  A sigmoid of the ratio in place of the clip, sharper for bad actions; on
  policy its gradient is the policy gradient. A mean over sequences, no KL.
  Status: published, verl's code read.
  """
  return grpo.grpo(kl_coef=0)._replace(
    surrogate=functools.partial(
      weights.soft_gate, tau_positive=tau_positive, tau_negative=tau_negative
    )
  )


def topr(
  *, baseline: ranges.Finite = 0.0, high: ranges.Positive = 1.0
) -> compose.Objective:
  """Tapered off-policy REINFORCE (Le Roux et al., arXiv:2503.14286).

  A good sequence has weight 1 however stale it is, a bad one its importance
  ratio to the sampler, at most `high`. Nothing is dropped; a survey's rule
  that drops stale samples is `offpolicy.drop_stale`. Rewards are +1 and -1, or
  else `baseline` lies between good and bad. Status: published.
  """
  return compose.Objective(
    advantage=functools.partial(advantages.over_constant, baseline=baseline),
    ratio=binding.on(ratios.trajectory, old_logp='rollout_logp'),
    surrogate=functools.partial(weights.tapered, high_negative=high),
    aggregate=aggregations.sequence_sum,
  )


def dppo(
  base: methods.Base = 'grpo.dapo',
  *,
  low: ranges.Fraction = 0.2,
  high: ranges.Fraction = 0.2,
) -> compose.Objective:
  """Divergence PPO by total variation (arXiv:2602.04879).

  The trust region bounds what a token's probability may change by, not its
  ratio, which forbids rare tokens what it allows common ones. The anchor is the
  sampler. Status: published, official code and verl's read; the default bound
  is SkyRL's.
  """
  return methods.objective(base)._replace(
    surrogate=functools.partial(
      weights.total_variation_masked, low=low, high=high
    )
  )


def dppo_kl(
  base: methods.Base = 'grpo.dapo',
  *,
  low: ranges.Positive = 0.2,
  high: ranges.Positive = 0.2,
) -> compose.Objective:
  """Divergence PPO by the KL of the token against the rest.

  arXiv:2602.04879. Status: published, official code and verl's read.
  """
  return methods.objective(base)._replace(
    surrogate=functools.partial(weights.binary_kl_masked, low=low, high=high)
  )


def bpo(*, cap: ranges.OverOne = 2.0) -> compose.Objective:
  """Bellman policy optimization (arXiv:2609.15987).

  No importance ratio: a weight from the token's probabilities before and now,
  from the residual of policy mirror descent. The advantage is reward less
  group mean. Status: published form read in notes; no code; the cap is ours.
  """
  return grpo.dapo()._replace(
    advantage=advantages.group_center,
    surrogate=functools.partial(weights.bellman, cap=cap),
  )


def nsr(
  base: methods.Base = 'grpo.dapo',
  *,
  low: ranges.Fraction = 0.2,
  high: ranges.Positive = 0.28,
  width: ranges.Fraction = 0.25,
) -> compose.Objective:
  """Near-boundary stochastic rescue (arXiv:2605.22703).

  A token just past the clip has a chance to count. Works with any ratio: the
  noise is the loop's, from (seed, batch). Status: mechanism published; the
  width is ours.
  """
  return methods.objective(base)._replace(
    surrogate=functools.partial(
      surrogates.rescue, low=low, high=high, width=width
    )
  )


def nsr_bernoulli(
  base: methods.Base = 'grpo.dapo',
  *,
  low: ranges.Fraction = 0.2,
  high: ranges.Positive = 0.28,
  margin: ranges.Fraction = 0.25,
  probability: ranges.Fraction = 0.2,
) -> compose.Objective:
  """NSR as a public patch of a trainer has it: a fixed chance in a margin.

  Beside arXiv:2605.22703. Status: third-party code read; both numbers are ours.
  """
  return methods.objective(base)._replace(
    surrogate=functools.partial(
      surrogates.rescue_bernoulli,
      low=low,
      high=high,
      margin=margin,
      probability=probability,
    )
  )
