"""Rewards to rewards, before credit is assigned."""

import jax
import jax.numpy as jnp

from arl import levels, ranges


def kl_in_reward(
  rewards: jax.Array,
  old_logp: jax.Array,
  ref_logp: jax.Array,
  *,
  coef: ranges.Finite,
) -> jax.Array:
  """rewards - coef * (old_logp - ref_logp) (InstructGPT, arXiv:2203.02155).

  The sampled log-ratio of the policy that acted, a penalty without gradient.
  """
  return rewards - coef * (old_logp - ref_logp)


def overlong(
  rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  longest: ranges.Positive,
  buffer: ranges.Positive,
) -> jax.Array:
  """A penalty on the last token of a sequence that is nearly too long.

  Soft overlong punishment (DAPO, arXiv:2503.14476, eq. 13): 0 up to longest -
  buffer tokens, then falling linearly, -1 from `longest` tokens on. Lengths
  count the policy's tokens of a sequence: not the prompt, no observations.
  """
  length = levels.count(seq, mask, rewards.dtype)
  penalty = jnp.clip((longest - buffer - length) / buffer, -1, 0)
  return rewards + jnp.where(levels.last(seq, mask), penalty, 0)


def with_process(
  rewards: jax.Array,
  process_rewards: jax.Array,
  *,
  coef: ranges.Finite = 1.0,
) -> jax.Array:
  """rewards + coef * process_rewards: outcome and scores of steps, a token.

  What process-supervised PPO estimates advantages from; surveys name it, no
  publication gives a formula.
  """
  return rewards + coef * process_rewards


def with_step_share(
  rewards: jax.Array,
  process_rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  turn: levels.Level,
  *,
  coef: ranges.Finite = 0.1,
) -> jax.Array:
  """rewards + coef * mean score of a sequence's steps, on its last token.

  The share of key steps in StepGRPO's reward (R1-VL, arXiv:2503.12937), if a
  score is 1 for a step that is one.
  """
  scored = levels.total(process_rewards, turn, mask)
  share = levels.mean(scored, seq, levels.last(turn, mask))
  return rewards + jnp.where(levels.last(seq, mask), coef * share, 0)


def bootstrap(
  rewards: jax.Array,
  old_value: jax.Array,
  truncated: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  gamma: ranges.Fraction,
) -> jax.Array:
  """Adds gamma * V on the last token of a sequence that a limit cut off.

  Any estimator that follows then continues such a sequence with the value
  before its last token, the latest that is known, in place of 0.
  """
  ends = levels.last(seq, mask) & truncated
  return rewards + jnp.where(ends, gamma * old_value, 0)
