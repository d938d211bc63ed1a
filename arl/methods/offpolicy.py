"""Corrections for stale rollouts and unlike samplers: Objective to Objective.

Each takes a base: an objective, its name, or its block of a config. So each
works over every objective, and they stack.
"""

import functools

from arl import methods, ranges, types
from arl.kernels import corrections, weights
from arl.methods import binding, compose


def tis(
  base: methods.Base = 'grpo.dapo',
  *,
  low: ranges.NonNegative = 0.0,
  high: ranges.Positive = 2.0,
) -> compose.Objective:
  """Truncated importance sampling (F. Yao et al., 2025), a token.

  Status: published (a report), verl, TRL and slime read.
  """
  return _corrected(base, corrections.truncated, low=low, high=high)


def tis_sequence(
  base: methods.Base = 'grpo.dapo',
  *,
  low: ranges.NonNegative = 0.0,
  high: ranges.Positive = 2.0,
) -> compose.Objective:
  """TIS by the product of a sequence's ratios. Status: verl read."""
  return _corrected(base, corrections.truncated_sequence, low=low, high=high)


def tis_normalized(
  base: methods.Base = 'grpo.dapo',
  *,
  low: ranges.NonNegative = 0.0,
  high: ranges.Positive = 2.0,
) -> compose.Objective:
  """TIS whose weights have mean 1 over the rollout batch. Status: verl read."""
  weigh = functools.partial(corrections.self_normalized, low=low, high=high)
  objective = methods.objective(base)
  return objective._replace(
    advantage=(('factor', weigh), *compose.steps(objective.advantage)),
    corrections=(*objective.corrections, corrections.credited),
  )


def mis(
  base: methods.Base = 'grpo.dapo',
  *,
  low: ranges.NonNegative = 0.5,
  high: ranges.Positive = 2.0,
) -> compose.Objective:
  """Masked importance sampling: rho inside the band, else 0; a token.

  Denominators keep what is masked. Status: official code (verl, slime) read.
  """
  return _corrected(base, corrections.masked, low=low, high=high)


def mis_product(
  base: methods.Base = 'grpo.dapo',
  *,
  low: ranges.NonNegative = 0.5,
  high: ranges.Positive = 2.0,
) -> compose.Objective:
  """MIS that keeps sequences by the product of their ratios.

  Status: verl read.
  """
  return _corrected(base, corrections.masked_by_product, low=low, high=high)


def mis_mean(
  base: methods.Base = 'grpo.dapo',
  *,
  low: ranges.NonNegative = 0.5,
  high: ranges.Positive = 2.0,
) -> compose.Objective:
  """MIS that keeps sequences by their geometric mean ratio.

  Status: verl read.
  """
  return _corrected(base, corrections.masked_by_mean, low=low, high=high)


def mis_largest(
  base: methods.Base = 'grpo.dapo',
  *,
  low: ranges.NonNegative = 0.5,
  high: ranges.Positive = 2.0,
) -> compose.Objective:
  """MIS that keeps sequences by their furthest ratio. Status: verl read."""
  return _corrected(base, corrections.masked_by_largest, low=low, high=high)


def icepop(
  base: methods.Base = 'grpo.dapo',
  *,
  low: ranges.NonNegative = 0.5,
  high: ranges.Positive = 5.0,
) -> compose.Objective:
  """IcePop (Ring-1T, arXiv:2510.18855): token-level MIS with a wider band.

  What lies outside the band leaves the gradient, what lies inside keeps rho.
  TRL, slime and GLM-5 use high = 2. Status: published, official code read.
  """
  return mis(base, low=low, high=high)


def decoupled_ppo(base: methods.Base = 'grpo.dapo') -> compose.Objective:
  """Decoupled PPO (Hilton et al., arXiv:2110.00641; AReaL, arXiv:2505.24298).

  Clips around the policy when the batch began and weighs by its ratio to the
  older one that sampled. Status: published, official code read.
  """
  return _corrected(base, corrections.importance)


def opsm(
  base: methods.Base = 'grpo.dapo', *, delta: ranges.Finite = 0.5
) -> compose.Objective:
  """Off-policy sequence mask (DeepSeek-V3.2, arXiv:2512.02556).

  Drops sequences of negative advantage whose mean log-prob is more than delta
  below what the sampler reported: the paper's old policy is the sampler, so the
  mask sees staleness as well as another arithmetic. The paper gives no delta;
  0.5 is TRL's. Status: published, official code (TRL) read.
  """
  left = functools.partial(corrections.sequence_mask, delta=delta)
  return _corrected(base, binding.on(left, old_logp='rollout_logp'))


def estr(
  base: methods.Base = 'grpo.dapo',
  *,
  tau: ranges.Positive = 1.0,
  eps: ranges.Positive = 0.01,
) -> compose.Objective:
  """Entropy-scaled trust region (arXiv:2607.22186).

  Keeps a token while its squared log-ratio to the sampler is small against the
  sampler's entropy there; the base's clip works inside, on that same ratio. No
  code is public and tau is ours. Status: published form.
  """
  return _corrected(anchored(base), corrections.entropy_trust, tau=tau, eps=eps)


def dis(
  base: methods.Base = 'grpo.dapo',
  *,
  low: ranges.Fraction = 0.2,
  high: ranges.Positive = 0.28,
) -> compose.Objective:
  """Direct double-sided importance sampling (GLM-5, arXiv:2602.15763, 4.1.2).

  One ratio, of the policy to the sampler; outside the band a token has no
  gradient whatever the sign of its advantage. Also SAO's (arXiv:2607.07508).
  Status: published, official code (SkyRL) read.
  """
  return anchored(base)._replace(
    surrogate=functools.partial(weights.double_sided, low=low, high=high)
  )


def anchored(base: methods.Base = 'grpo.dapo') -> compose.Objective:
  """The base with its ratio to the sampler: no pass for `old_logp`.

  What trainers call bypass mode: update and correction in one ratio. Status:
  verl read.
  """
  objective = methods.objective(base)
  if 'old_logp' not in binding.read_by(objective.ratio):
    return objective
  ratio = binding.on(objective.ratio, old_logp='rollout_logp')
  return objective._replace(ratio=ratio)


def two_level(
  base: methods.Base = 'grpo.dapo',
  *,
  low: ranges.NonNegative = 0.5,
  high: ranges.Positive = 2.0,
) -> compose.Objective:
  """A survey's "two-level IS": token ratio times sequence ratio, each cut.

  It counts rho twice and is no unbiased weight. Status: survey-described, our
  definition.
  """
  return _corrected(base, corrections.two_level, low=low, high=high)


def drop_stale(
  base: methods.Base = 'grpo.dapo', *, kappa: ranges.NonNegative = 0.1
) -> compose.Objective:
  """Drops sequences whose sampler is further than kappa nats a token away.

  What a survey says of TOPR (arXiv:2503.14286; see `soft.topr`). Status:
  survey-described, our definition.
  """
  return _corrected(base, corrections.drop_stale, kappa=kappa)


def glm5_reasoning() -> compose.Objective:
  """GLM-5's reasoning stage (arXiv:2602.15763): GRPO, clip-higher, IcePop.

  Status: published, official code (slime) read.
  """
  return icepop({'name': 'grpo.dapo', 'low': 0.2, 'high': 0.28}, high=2.0)


def glm5_agentic(
  *, low: ranges.Fraction = 0.2, high: ranges.Positive = 0.28
) -> compose.Objective:
  """GLM-5's agentic stage (arXiv:2602.15763, 4.1.2): group advantages, DIS.

  Asynchronous: no log-probs of the policy when the batch began are kept.
  Status: published, official code (slime) read.
  """
  return dis('grpo.dapo', low=low, high=high)


def _corrected(base, kernel: types.Kernel, **numbers) -> compose.Objective:
  """The base with one more factor."""
  objective = methods.objective(base)
  factor = functools.partial(kernel, **numbers)
  return objective._replace(corrections=(*objective.corrections, factor))
