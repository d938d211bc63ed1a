"""Surrogate objectives: what the policy term maximizes, a token.

A kernel reads columns [B, T] and gives the column `objective` [B, T]. The
advantage never carries a gradient: the composition stops it.
`low` and `high` are distances from 1, as in the papers. Here are those that
clip the objective; `weights` has those that bound the weight of a token.
"""

import jax
import jax.numpy as jnp

from arl import levels, ranges

_LARGEST_LOG_RATIO = 20.0


def ratio(log_ratio: jax.Array) -> jax.Array:
  """exp of the log-ratio, whose size is limited to 20 so that it is finite."""
  return jnp.exp(_clamp(log_ratio, -_LARGEST_LOG_RATIO, _LARGEST_LOG_RATIO))


def _clamp(x, low, high):
  """jnp.clip without gradient at a bound, where that gives half of it."""
  return jax.lax.clamp(jnp.asarray(low, x.dtype), x, jnp.asarray(high, x.dtype))


def reinforce(logp: jax.Array, advantage: jax.Array) -> jax.Array:
  """advantage * logp (Williams 1992). Its value means nothing; its gradient is
  the policy gradient, if the tokens were sampled from the current policy."""
  return advantage * logp


def importance(log_ratio: jax.Array, advantage: jax.Array) -> jax.Array:
  """ratio * advantage: importance sampling without a limit."""
  return ratio(log_ratio) * advantage


def clip(
  log_ratio: jax.Array,
  advantage: jax.Array,
  *,
  low: ranges.NonNegative,
  high: ranges.Positive,
) -> jax.Array:
  """The pessimistic clipped objective (PPO, arXiv:1707.06347, eq. 7).

  min(r A, clip(r, 1 - low, 1 + high) A). A tie takes the unclipped branch with
  its whole gradient, where jnp.minimum would halve it.
  """
  r = ratio(log_ratio)
  bounded = _clamp(r, 1 - low, 1 + high)
  return _smaller(r * advantage, bounded * advantage)


def _smaller(free, bounded):
  """The smaller one; of two that are equal the free one."""
  return jnp.where(free <= bounded, free, bounded)


def dual_clip(
  log_ratio: jax.Array,
  advantage: jax.Array,
  *,
  low: ranges.NonNegative,
  high: ranges.Positive,
  cap: ranges.OverOne = 3.0,
) -> jax.Array:
  """`clip`, and for a negative advantage at least cap * advantage.

  Dual-clip PPO, arXiv:1912.09729, eq. 5; cap > 1. Without it the objective of
  a bad action has no lower bound as its ratio grows.
  """
  objective = clip(log_ratio, advantage, low=low, high=high)
  floor = cap * advantage
  return jnp.where((advantage < 0) & (objective < floor), floor, objective)


def two_sided(
  log_ratio: jax.Array,
  advantage: jax.Array,
  *,
  low: ranges.NonNegative,
  high: ranges.Positive,
  delta: ranges.OverOne = 4.0,
) -> jax.Array:
  """`clip`, with min(r, delta) for r in the branch that is not clipped.

  INTELLECT-2, arXiv:2505.07291; delta > 1 + high, so it binds where the
  advantage is negative. Then it is `dual_clip` with cap = delta.
  """
  r = ratio(log_ratio)
  bounded = jnp.clip(r, 1 - low, 1 + high)
  return _smaller(_smaller(r, delta) * advantage, bounded * advantage)


def geometric(
  log_ratio: jax.Array,
  advantage: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  low: ranges.Positive = 0.4,
  high: ranges.Positive = 0.4,
) -> jax.Array:
  """advantage times the geometric mean of a sequence's clipped ratios.

  GMPO, arXiv:2507.20673: each log-ratio is limited to [-low, high] on the side
  that the sign of the advantage makes the pessimistic one, then the mean over
  the sequence is taken. The bounds are of the log-ratio, wider than others
  because one token moves the mean little. To be averaged by sequences.
  """
  log_ratio, advantage = (jnp.where(mask, x, 0) for x in (log_ratio, advantage))
  sign = jnp.where(advantage < 0, -1.0, 1.0)
  bounded = jnp.clip(log_ratio, -low, high)
  pessimistic = sign * _smaller(sign * log_ratio, sign * bounded)
  return ratio(levels.mean(pessimistic, seq, mask)) * advantage


def rescue(
  log_ratio: jax.Array,
  advantage: jax.Array,
  noise: jax.Array,
  *,
  low: ranges.NonNegative,
  high: ranges.Positive,
  width: ranges.Fraction = 0.25,
) -> jax.Array:
  """`clip`, where a clipped token near its bound has a chance to count.

  Near-boundary stochastic rescue, arXiv:2605.22703: where `clip` binds, the
  ratio times xi, uniform in [1 - width, 1 + width], takes its place if it lies
  within both bounds; xi carries no gradient. A ratio over (1 + high) / (1 -
  width) is never rescued. Width 0 is `clip`. The width is not public; ours.
  `noise` is uniform in [0, 1), of each token on its own.
  """
  r = ratio(log_ratio)
  objective = clip(log_ratio, advantage, low=low, high=high)
  moved = (1 + width * (2 * noise - 1)) * r
  inside = (1 - low <= moved) & (moved <= 1 + high)
  rescued = (objective < r * advantage) & inside
  return jnp.where(rescued, moved * advantage, objective)


def rescue_bernoulli(
  log_ratio: jax.Array,
  advantage: jax.Array,
  noise: jax.Array,
  *,
  low: ranges.NonNegative,
  high: ranges.Positive,
  margin: ranges.Fraction = 0.25,
  probability: ranges.Fraction = 0.2,
) -> jax.Array:
  """`clip`, where a clipped token near its bound is kept by a biased coin.

  A simpler form of `rescue` that is in use: within a relative margin of the
  bound that it crossed a token keeps ratio * advantage with a fixed
  probability. Both numbers are ours.
  """
  r = ratio(log_ratio)
  objective = clip(log_ratio, advantage, low=low, high=high)
  near = (r <= (1 + high) * (1 + margin)) & (r >= (1 - low) * (1 - margin))
  return jnp.where(near & (noise < probability), r * advantage, objective)


def clip_by_turn(
  log_ratio: jax.Array,
  advantage: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  turn: levels.Level,
  *,
  low: ranges.NonNegative,
  high: ranges.Positive,
  kappa: ranges.NonNegative = 0.0,
) -> jax.Array:
  """`clip`, with bounds that widen from the first turn to the last.

  Of a sequence's K turns, turn k = 0, ..., K - 1 has its bounds multiplied by
  1 + kappa * k / (K - 1). A survey describes StepPO (arXiv:2604.18401) this
  way; what is published clips all turns alike, which is kappa = 0. The form is
  ours. A sequence must lie in one row.
  """
  starts = jnp.cumsum(levels.first(turn, mask), axis=1, dtype=log_ratio.dtype)
  index = jnp.where(mask, starts - levels.lowest(starts, seq, mask), 0)
  last = jnp.maximum(levels.highest(index, seq, mask), 1)
  wider = 1 + kappa * index / last
  r = ratio(log_ratio)
  bounded = jnp.clip(r, 1 - low * wider, 1 + high * wider)
  return _smaller(r * advantage, bounded * advantage)
