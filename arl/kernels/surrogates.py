"""Surrogate objectives: what the policy term maximizes, a token.

A kernel reads columns [B, T] and gives the column `objective` [B, T]. The
advantage never carries a gradient: the composition stops it.
`low` and `high` are distances from 1, as in the papers.
"""

import jax
import jax.numpy as jnp

_LARGEST_LOG_RATIO = 20.0


def ratio(log_ratio: jax.Array) -> jax.Array:
  """exp of the log-ratio, whose size is limited to 20 so that it is finite."""
  return jnp.exp(jnp.clip(log_ratio, -_LARGEST_LOG_RATIO, _LARGEST_LOG_RATIO))


def reinforce(logp: jax.Array, advantage: jax.Array) -> jax.Array:
  """advantage * logp (Williams 1992). Its value means nothing; its gradient is
  the policy gradient, if the tokens were sampled from the current policy."""
  return advantage * logp


def importance(log_ratio: jax.Array, advantage: jax.Array) -> jax.Array:
  """ratio * advantage: importance sampling without a limit."""
  return ratio(log_ratio) * advantage


def clip(
  log_ratio: jax.Array, advantage: jax.Array, *, low: float, high: float
) -> jax.Array:
  """The pessimistic clipped objective (PPO, arXiv:1707.06347, eq. 7).

  min(r A, clip(r, 1 - low, 1 + high) A). A tie takes the unclipped branch with
  its whole gradient, where jnp.minimum would halve it.
  """
  r = ratio(log_ratio)
  free = r * advantage
  bounded = jnp.clip(r, 1 - low, 1 + high) * advantage
  return jnp.where(free <= bounded, free, bounded)


def dual_clip(
  log_ratio: jax.Array,
  advantage: jax.Array,
  *,
  low: float,
  high: float,
  cap: float = 3.0,
) -> jax.Array:
  """`clip`, and for a negative advantage at least cap * advantage.

  Dual-clip PPO, arXiv:1912.09729, eq. 5; cap > 1. Without it the objective of
  a bad action has no lower bound as its ratio grows.
  """
  objective = clip(log_ratio, advantage, low=low, high=high)
  floor = cap * advantage
  return jnp.where((advantage < 0) & (objective < floor), floor, objective)
