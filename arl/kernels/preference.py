"""Losses of preferences: what is preferred to what, and by how much.

A pair is a group: two answers to a prompt, the preferred one of higher reward.
So pairs out of a file and pairs sampled by the policy are the same columns, and
a microbatch keeps them whole. `preferred` says of each sequence how it counts:
1 if it is the preferred one, -1 if another is preferred to it, 0 if it is not
compared; `regressions.moved_mass` gives it, best against worst, and where
several tie for either they share the mark, so that what is compared is a mean.

Kernels give the column `objective` [B, T]: -loss of the pair, the same on every
token of its group; average them by `aggregations.group_mean`. A group without a
comparison gives exactly 0. The log-ratio is of whole sequences, one of those
below; h is that of the preferred sequence less that of the other.
"""

import jax
import jax.numpy as jnp

from arl import levels, ranges
from arl.kernels import logps

_NEAREST = -1e-6  # the log of a likelihood whose odds are still finite


# Log-ratios of sequences.


def summed(
  logp: jax.Array, ref_logp: jax.Array, mask: jax.Array, seq: levels.Level
) -> jax.Array:
  """log pi - log ref of the whole sequence: DPO's implicit reward over beta.

  A log-prob below -1e4, as that of a token which a sampler ruled out, counts as
  -1e4.
  """
  return levels.total(logps.finite(logp) - logps.finite(ref_logp), seq, mask)


def averaged(
  logp: jax.Array, ref_logp: jax.Array, mask: jax.Array, seq: levels.Level
) -> jax.Array:
  """`summed` over the number of tokens."""
  return levels.mean(logps.finite(logp) - logps.finite(ref_logp), seq, mask)


def likelihood(
  logp: jax.Array, mask: jax.Array, seq: levels.Level
) -> jax.Array:
  """The mean log-prob of a sequence's tokens, against no reference."""
  return levels.mean(logps.finite(logp), seq, mask)


# What is compared.


def compared(preferred: jax.Array) -> jax.Array:
  """True in a sequence that is preferred, or another preferred to it."""
  return preferred != 0


def _marks(preferred, mask, seq, group):
  """The mark once a sequence, and where there is a comparison."""
  once = levels.last(seq, mask)
  mark = jax.lax.stop_gradient(jnp.where(once, preferred, 0))
  return mark, mask & (levels.highest(mark, group, once) > 0)


def _between(score, mark, group):
  """The preferred sequence's score less that of the other."""
  marked = mark != 0
  return levels.total(jnp.where(marked, score, 0) * mark, group, marked)


def _compared(log_ratio, preferred, mask, seq, group):
  """h, and where there is a comparison."""
  mark, there = _marks(preferred, mask, seq, group)
  return jnp.where(there, _between(log_ratio, mark, group), 0), there


# Pairs.


def sigmoid(
  log_ratio: jax.Array,
  preferred: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  *,
  beta: ranges.Positive = 0.1,
) -> jax.Array:
  """log sigmoid(beta * h) (DPO, arXiv:2305.18290, eq. 7).

  By `summed`. The gradient in h is beta * sigmoid(-beta * h); at the reference
  h is 0 and the loss log 2.
  """
  h, there = _compared(log_ratio, preferred, mask, seq, group)
  return jnp.where(there, -jax.nn.softplus(-beta * h), 0)


def sigmoid_smoothed(
  log_ratio: jax.Array,
  preferred: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  *,
  beta: ranges.Positive = 0.1,
  smoothing: ranges.Fraction = 0.1,
) -> jax.Array:
  """`sigmoid` of labels of which a share `smoothing` is wrong (cDPO).

  The cross-entropy to that share, so that h stops growing once sigmoid(beta *
  h) is 1 - smoothing.
  """
  h, there = _compared(log_ratio, preferred, mask, seq, group)
  right, wrong = jax.nn.softplus(-beta * h), jax.nn.softplus(beta * h)
  loss = (1 - smoothing) * right + smoothing * wrong
  return jnp.where(there, -loss, 0)


def sigmoid_robust(
  log_ratio: jax.Array,
  preferred: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  *,
  beta: ranges.Positive = 0.1,
  flipped: ranges.UnderHalf = 0.1,
) -> jax.Array:
  """`sigmoid` without the bias of labels of which a share was flipped.

  Robust DPO (arXiv:2403.00409): in expectation over the flips it is the loss of
  the clean labels. It has no lower bound.
  """
  h, there = _compared(log_ratio, preferred, mask, seq, group)
  right, wrong = jax.nn.softplus(-beta * h), jax.nn.softplus(beta * h)
  loss = ((1 - flipped) * right - flipped * wrong) / (1 - 2 * flipped)
  return jnp.where(there, -loss, 0)


def squared(
  log_ratio: jax.Array,
  preferred: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  *,
  beta: ranges.Positive = 0.1,
) -> jax.Array:
  """-(h - 1 / (2 beta))^2 (IPO, arXiv:2310.12036, there tau).

  h has a target instead of growing without end. By `summed` as in the paper, or
  by `averaged`, as its authors have said they meant it.
  """
  h, there = _compared(log_ratio, preferred, mask, seq, group)
  return jnp.where(there, -jnp.square(h - 1 / (2 * beta)), 0)


def sigmoid_margin(
  log_ratio: jax.Array,
  preferred: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  *,
  beta: ranges.Positive = 2.0,
  gamma: ranges.NonNegative = 1.0,
) -> jax.Array:
  """log sigmoid(beta * h - gamma) (SimPO, arXiv:2405.14734, eq. 6).

  By `likelihood`: there is no reference. The official code is given gamma /
  beta.
  """
  h, there = _compared(log_ratio, preferred, mask, seq, group)
  return jnp.where(there, -jax.nn.softplus(gamma - beta * h), 0)


def odds_ratio(
  log_ratio: jax.Array,
  preferred: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  *,
  coef: ranges.NonNegative = 0.1,
) -> jax.Array:
  """Mean log-prob of the preferred one, and coef * log sigmoid(log odds ratio).

  ORPO (arXiv:2403.07691): by `likelihood`, whose exponential p has the odds
  p / (1 - p). From p = exp(-1e-6) on the odds are held, without a gradient. The
  likelihood is of the tokens on the mask, so not of the prompt.
  """
  mark, there = _marks(preferred, mask, seq, group)
  p = jnp.where(mark != 0, log_ratio, -1)
  p = jnp.where(p < _NEAREST, p, _NEAREST)
  h = _between(p - jnp.log(-jnp.expm1(p)), mark, group)
  likely = _between(log_ratio, jnp.maximum(mark, 0), group)
  objective = likely - coef * jax.nn.softplus(-h)
  return jnp.where(there, objective, 0)


# Other readings of Pair-GRPO.


def _each_pair(function, x):
  return function(x[:, None], x[None])


def wins(
  rewards: jax.Array, mask: jax.Array, seq: levels.Level, group: levels.Level
) -> jax.Array:
  """Mean of sign(R - R') over the others of the group: in [-1, 1].

  For groups of any size what `advantages.pair_sign` is for two. Rewards that
  differ by rounding tie.
  """
  once = levels.last(seq, mask)
  score = levels.segment_sum(rewards, seq, mask)
  size = levels.segment_sum(jnp.abs(rewards), seq, mask)
  ids = jnp.broadcast_to(group.ids, mask.shape)
  home = levels.segment_sum(ids, seq, once)
  there = levels.segment_sum(jnp.ones_like(ids), seq, once) > 0
  rivals = _each_pair(jnp.equal, home) & _each_pair(jnp.logical_and, there)
  gap = _each_pair(jnp.subtract, score)
  rounding = 4 * jnp.finfo(gap.dtype).eps * _each_pair(jnp.maximum, size)
  sign = jnp.where(rivals & (jnp.abs(gap) > rounding), jnp.sign(gap), 0)
  others = jnp.sum(rivals, axis=1, dtype=gap.dtype) - 1
  mean = jnp.sum(sign, axis=1) / jnp.maximum(others, 1)
  spread = levels.spread(mean, seq)
  return jax.lax.stop_gradient(jnp.where(mask, spread, 0))


def stepped(
  log_ratio: jax.Array, advantage: jax.Array, *, delta: ranges.Positive = 0.2
) -> jax.Array:
  """-(log_ratio - delta * advantage)^2 / (2 delta).

  The policy is drawn to the old one times exp(delta * advantage). By
  `ratios.trajectory`; on policy the gradient is the policy gradient. Without an
  advantage it is 0.
  """
  gap = log_ratio - delta * advantage
  return jnp.where(advantage != 0, -jnp.square(gap) / (2 * delta), 0)


# What to watch.


def margin(
  log_ratio: jax.Array,
  preferred: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
) -> jax.Array:
  """h of the token's pair, without a gradient."""
  h, _ = _compared(log_ratio, preferred, mask, seq, group)
  return jax.lax.stop_gradient(h)


def preferred_tokens(
  preferred: jax.Array, mask: jax.Array, seq: levels.Level, group: levels.Level
) -> jax.Array:
  """How many tokens the preferred sequence of the token's pair has."""
  return _length(preferred, mask, seq, group, 1)


def other_tokens(
  preferred: jax.Array, mask: jax.Array, seq: levels.Level, group: levels.Level
) -> jax.Array:
  """How many tokens that has which another is preferred to."""
  return _length(preferred, mask, seq, group, -1)


def _length(preferred, mask, seq, group, sign):
  mark, there = _marks(preferred, mask, seq, group)
  count = levels.total(mask.astype(mark.dtype), seq, mask)
  length = _between(count, jnp.maximum(sign * mark, 0), group)
  return jnp.where(there, length, 0)


def accuracy(
  log_ratio: jax.Array,
  preferred: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
) -> jax.Array:
  """1 where h is above 0: the pair is in the preferred order."""
  h = margin(log_ratio, preferred, mask, seq, group)
  return jnp.where(h > 0, 1.0, 0.0)
