"""Where a teacher counts: weights of turns and of tokens in distillation.

Kernels read columns [B, T] and give a column [B, T]; what is of a turn is
constant on the policy's tokens of it. `distillation` has what a teacher says.
Nothing here carries a gradient.
"""

import jax
import jax.numpy as jnp

from arl import levels, ranges
from arl.kernels import distillation


def step_weights(
  old_logp: jax.Array,
  teacher_logp: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  turn: levels.Level,
  *,
  eps: ranges.Positive = 1e-6,
  delta: ranges.NonNegative = 0.5,
) -> jax.Array:
  """Weights of turns: less where the policy has drifted from the teacher.

  SOD (arXiv:2605.07725, official code read). d is a turn's mean |teacher_logp -
  old_logp|; a turn weighs (d of the first + eps) / (d + eps), at most 1 +
  delta. The first turn weighs 1; if it agrees entirely, the others weigh
  nothing.
  """
  size = jnp.abs(distillation.gap(teacher_logp, old_logp))
  apart = levels.mean(size, turn, mask)
  start = levels.total(apart, seq, levels.first(seq, mask))
  return jnp.minimum((start + eps) / (apart + eps), 1 + delta)


def urgency(
  old_logp: jax.Array,
  teacher_logp: jax.Array,
  old_entropy: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  turn: levels.Level,
) -> jax.Array:
  """Weights of turns, of mean 1 in a sequence: more where either is high.

  T-DUR of ATOD (arXiv:2606.27814). Of each turn the mean disagreement
  |teacher_logp - old_logp| and the mean entropy, both scaled to [0, 1] over
  the turns of the sequence, then `either`. The scale of the weights is ours.
  """
  size = jnp.abs(distillation.gap(teacher_logp, old_logp))
  apart, unsure = (
    _scaled(levels.mean(x, turn, mask), mask, seq) for x in (size, old_entropy)
  )
  return of_mean_one(either(apart, unsure), mask, seq, turn)


def either(a: jax.Array, b: jax.Array) -> jax.Array:
  """a + b - a b: near 1 where one of two numbers in [0, 1] is."""
  return a + b - a * b


def of_mean_one(
  weight: jax.Array, mask: jax.Array, seq: levels.Level, turn: levels.Level
) -> jax.Array:
  """Over its mean over the turns of a sequence; 1 where all are 0."""
  typical = levels.mean(weight, seq, levels.last(turn, mask))
  return jnp.where(typical > 0, weight / jnp.where(typical > 0, typical, 1), 1)


def _scaled(x, mask, seq):
  """From 0 at the lowest of a sequence to 1 at its highest; 0 if all agree."""
  low, high = levels.lowest(x, seq, mask), levels.highest(x, seq, mask)
  wide = high > low
  low, width = jnp.where(wide, low, x), jnp.where(wide, high - low, 1)
  return (x - low) / width


def beside(
  advantage: jax.Array,
  distilled: jax.Array,
  turn_weight: jax.Array,
  *,
  coef: ranges.NonNegative = 1.0,
) -> jax.Array:
  """advantage + coef * turn_weight * distilled: a teacher beside the reward."""
  return advantage + coef * turn_weight * distilled


def annealed(
  advantage: jax.Array,
  distilled: jax.Array,
  turn_weight: jax.Array,
  progress: jax.Array,
  *,
  least: ranges.Fraction = 0.1,
) -> jax.Array:
  """kappa * turn_weight * distilled + rho * advantage.

  ATOD (arXiv:2606.27814): kappa falls from 1 to `least` over the run, rho rises
  from `least` to 1, both linearly. To let go of the teacher entirely is
  reported to cost what was learned.
  """
  done = jnp.asarray(progress, advantage.dtype)
  kappa, rho = 1 - (1 - least) * done, least + (1 - least) * done
  return kappa * turn_weight * distilled + rho * advantage


def turn_annealed(
  mask: jax.Array, turn: levels.Level, progress: jax.Array
) -> jax.Array:
  """Weights that go from a mean over tokens to a mean over turns.

  TurnOPD (arXiv:2607.05804): the share of the mean over turns of token means is
  `progress`. Sums to 1.
  """
  share = jnp.asarray(progress, jnp.result_type(float))
  tokens = jnp.maximum(jnp.sum(mask, dtype=share.dtype), 1)
  turns = jnp.maximum(levels.number(turn, mask, share.dtype), 1)
  in_turn = jnp.maximum(levels.count(turn, mask, share.dtype), 1)
  weight = (1 - share) / tokens + share / (turns * in_turn)
  return jnp.where(mask, weight, 0)


def by_position(
  mask: jax.Array, seq: levels.Level, *, half: ranges.Positive = 512.0
) -> jax.Array:
  """The column `importance`: halves every `half` tokens of the policy.

  Early tokens choose the prefixes of all later ones. The form is ours. A
  sequence must lie in one row.
  """
  count = jnp.cumsum(mask, axis=1, dtype=jnp.result_type(float))
  index = jnp.where(mask, count - levels.lowest(count, seq, mask), 0)
  return jnp.where(mask, jnp.exp2(-index / half), 0)


def by_entropy(
  old_entropy: jax.Array, *, least: ranges.NonNegative = 0.1
) -> jax.Array:
  """The column `importance`: the entropy of the policy, plus `least`.

  Where the policy is sure there is little to learn. The form is ours.
  """
  return old_entropy + least
