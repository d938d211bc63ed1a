"""Rewards to rewards, before credit is assigned."""

import jax


def kl_in_reward(
  rewards: jax.Array, old_logp: jax.Array, ref_logp: jax.Array, *, coef: float
) -> jax.Array:
  """rewards - coef * (old_logp - ref_logp) (InstructGPT, arXiv:2203.02155).

  The sampled log-ratio of the policy that acted, a penalty without gradient.
  """
  return rewards - coef * (old_logp - ref_logp)
