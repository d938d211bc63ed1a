"""Value functions: losses, a token, and what a categorical critic means.

A categorical critic gives logits over `bins` of equal width on [low, high]; its
value is the expected center of a bin. Losses are differentiated; what they aim
at is not.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from arl import levels, ranges


def value_mse(value: jax.Array, returns: jax.Array) -> jax.Array:
  """Half the squared error."""
  return jnp.square(value - jax.lax.stop_gradient(returns)) / 2


def value_clip(
  value: jax.Array,
  old_value: jax.Array,
  returns: jax.Array,
  *,
  clip: ranges.Positive,
) -> jax.Array:
  """Half the larger of the free and the clipped squared error.

  The value may move by `clip` from where it was when the batch began (the PPO
  code of arXiv:1707.06347; public trainers differ in the factor 1/2).
  """
  near = old_value + jnp.clip(value - old_value, -clip, clip)
  free, bounded = jnp.square(value - returns), jnp.square(near - returns)
  return jnp.where(free >= bounded, free, bounded) / 2


def bounded(
  value: jax.Array, *, low: ranges.Finite, high: ranges.Finite
) -> jax.Array:
  """low + (high - low) * (1/2 + arctan(value) / pi): a value within a range.

  The range is that of rewards: BPCO (arXiv:2608.23566), as a digest has it. Far
  out its gradient falls with the square of the value, where that of a sigmoid,
  which a third party's code has, is soon gone. A step that comes before
  whatever reads `value`, and, on `old_value`, before the advantage.
  """
  return low + (high - low) * (0.5 + jnp.arctan(value) / jnp.pi)


def limited(
  returns: jax.Array, *, low: ranges.Finite, high: ranges.Finite
) -> jax.Array:
  """Returns as a critic of values in [low, high] can learn them."""
  return jnp.clip(returns, low, high)


def outside(
  returns: jax.Array, *, low: ranges.Finite, high: ranges.Finite
) -> jax.Array:
  """1 where a return lies outside [low, high], by more than rounding.

  The monitor of a critic with a range: above 0 the range is wrong, and what the
  critic learns is not what was earned.
  """
  room = 1e-5 * (high - low)
  return jnp.where((returns < low - room) | (returns > high + room), 1.0, 0.0)


def explained(
  returns: jax.Array, old_value: jax.Array, mask: jax.Array
) -> jax.Array:
  """1 - Var(R - V) / Var(R) over the tokens of the batch, on each of them.

  The explained variance: 1 of a critic that knows, 0 of one that says the same
  of all states, below 0 of one that misleads. 0 where returns do not vary.
  """
  return explained_where(returns, old_value, mask, mask)


def explained_where(
  returns: jax.Array, old_value: jax.Array, kept: jax.Array, mask: jax.Array
) -> jax.Array:
  """`explained` of a critic of the tokens `kept`, on all tokens."""
  where = mask & kept.astype(bool)
  n = jnp.maximum(jnp.sum(where, dtype=returns.dtype), 1)

  def variance(x):
    mean = jnp.sum(jnp.where(where, x, 0)) / n
    return jnp.sum(jnp.where(where, jnp.square(x - mean), 0)) / n

  of_returns, of_errors = variance(returns), variance(returns - old_value)
  largest = jnp.max(jnp.where(where, jnp.abs(returns), 0))
  varies = of_returns > jnp.square(4 * jnp.finfo(returns.dtype).eps * largest)
  share = 1 - of_errors / jnp.where(varies, of_returns, 1)
  share = jnp.where(varies, share, 0)
  return jax.lax.stop_gradient(jnp.where(mask, share, 0))


def support(low: float, high: float, bins: int) -> jax.Array:
  """The centers of the bins [bins]."""
  return low + (high - low) * (jnp.arange(bins, dtype=float) + 0.5) / bins


def expected_value(
  old_value_logits: jax.Array, *, low: ranges.Finite, high: ranges.Finite
) -> jax.Array:
  """The value of a categorical critic: [B, T, N] -> [B, T].

  The step that gives `old_value` to an estimator of advantages.
  """
  centers = support(low, high, old_value_logits.shape[-1])
  chances = jax.nn.softmax(old_value_logits)
  return chances @ centers.astype(chances.dtype)


def two_hot(position: jax.Array, bins: int) -> jax.Array:
  """Shares [..., bins] of the two centers around a position, of that mean.

  Positions [...] are in bins: bin i begins at i, and its center is i + 1/2. In
  the outer half of an outer bin all goes to its center.
  """
  inside = jnp.clip(position, 0.5, bins - 0.5)
  return jnp.maximum(1 - jnp.abs(_offsets(inside, bins)), 0)


def hl_gauss(
  position: jax.Array, bins: int, *, sigma: ranges.Positive = 0.75
) -> jax.Array:
  """Masses [..., bins] of a normal distribution around a position.

  HL-Gauss (arXiv:2403.03950): differences of its distribution function between
  the edges, divided by the mass inside the range. `sigma` is in bins.
  """
  offset = _offsets(position, bins)
  below = jax.scipy.stats.norm.cdf((offset - 0.5) / sigma)
  mass = jax.scipy.stats.norm.cdf((offset + 0.5) / sigma) - below
  return mass / jnp.sum(mass, axis=-1, keepdims=True)


def gauss_at_centers(
  position: jax.Array, bins: int, *, sigma: ranges.Positive = 0.75
) -> jax.Array:
  """Like `hl_gauss`, by the density at the centers (a public trainer's)."""
  return jax.nn.softmax(-jnp.square(_offsets(position, bins) / sigma) / 2)


def _offsets(position, bins):
  """How far the centers [bins] lie above positions [...]: [..., bins]."""
  centers = jnp.arange(bins, dtype=position.dtype) + 0.5
  return centers.reshape((1,) * position.ndim + (bins,)) - position[..., None]


def categorical(
  value_logits: jax.Array,
  returns: jax.Array,
  *,
  low: ranges.Finite,
  high: ranges.Finite,
  target: Callable[[jax.Array, int], jax.Array] = hl_gauss,
) -> jax.Array:
  """Cross-entropy of a categorical critic [B, T, N] to a target around R.

  Classification in place of regression (arXiv:2403.03950; for critics of
  language models arXiv:2608.02181, whose bins and target are not public).
  Returns outside [low, high] count as its nearer end. `target` makes shares of
  the bins from positions: `hl_gauss`, `two_hot`, `gauss_at_centers`.
  """
  bins = value_logits.shape[-1]
  inside = jnp.clip(jax.lax.stop_gradient(returns), low, high)
  shares = target(bins * (inside - low) / (high - low), bins)
  logs = jax.nn.log_softmax(value_logits)
  return -jnp.sum(shares.astype(logs.dtype) * logs, axis=-1)


# A critic that tells which of a few outcomes a sequence will have.


def nearest_outcome(
  rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  outcomes: tuple[float, ...],
) -> jax.Array:
  """Which of the outcomes is nearest to a sequence's R: int32 [B, T].

  CodeRL's classes (arXiv:2207.01780) are -1, -0.6, -0.3 and 1: a program that
  does not compile, one that fails, one with a wrong answer, one that is right.
  """
  score = levels.total(rewards, seq, mask)
  gaps = [jnp.abs(score - outcome) for outcome in outcomes]
  nearest = jnp.argmin(jnp.stack(gaps, axis=-1), axis=-1).astype(jnp.int32)
  return jnp.where(mask, nearest, 0)


def outcome_chance(old_value_logits: jax.Array, label: jax.Array) -> jax.Array:
  """The critic's chance of the outcome `label`, before a token: [B, T].

  The weight of CodeRL's tokens (arXiv:2207.01780), of the critic as it was when
  the batch began.
  """
  chances = jax.nn.softmax(old_value_logits)
  return jnp.take_along_axis(chances, label[..., None], axis=-1)[..., 0]


def outcome_loss(value_logits: jax.Array, label: jax.Array) -> jax.Array:
  """-log of the critic's chance of the outcome, before each token."""
  logs = jax.nn.log_softmax(value_logits)
  return -jnp.take_along_axis(logs, label[..., None], axis=-1)[..., 0]
