"""Credit below the sequence: turns, which the papers also call steps.

Kernels read columns [B, T] and give a column [B, T], constant on the policy's
tokens of a turn where nothing else is said. A turn's reward is the sum of its
tokens' rewards, its value the one before its first token: the state that the
policy answers. A turn without a token of the policy contributes nothing.
Nothing here carries a gradient.
"""

import jax
import jax.numpy as jnp

from arl import levels, ranges
from arl.kernels import advantages, returns


def turn_start(mask: jax.Array, turn: levels.Level) -> jax.Array:
  """The column `kept` of a critic of turns: true on each turn's first token."""
  return levels.first(turn, mask)


def turn_gae(
  rewards: jax.Array,
  old_value: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  turn: levels.Level,
  *,
  gamma: ranges.Fraction,
  lam: ranges.Fraction,
) -> jax.Array:
  """GAE whose time is the turns of a sequence.

  Turn-PPO (arXiv:2512.17008) and StepPO (arXiv:2604.18401): a turn is one
  action, so gamma and lam count turns, not tokens.
  """
  start = levels.first(turn, mask)
  earned = levels.total(rewards, turn, mask)
  advantage = returns.gae(earned, old_value, start, seq, gamma=gamma, lam=lam)
  return jnp.where(mask, levels.total(advantage, turn, start), 0)


def bi_level_gae(
  rewards: jax.Array,
  old_value: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  turn: levels.Level,
  *,
  turn_gamma: ranges.Fraction = 0.95,
  gamma: ranges.Fraction = 1.0,
  lam: ranges.Fraction = 1.0,
) -> jax.Array:
  """GAE over turns, then GAE within each turn, to what the turn returned.

  RAGEN (arXiv:2504.20073, official code read): values of the last tokens of
  turns make returns of turns, and each of them is the reward at the end of a
  sequence of its own, the tokens of the turn.
  """
  target = _turn_ends(
    rewards, old_value, mask, seq, turn, turn_gamma=turn_gamma, lam=lam
  )
  return returns.gae(target, old_value, mask, turn, gamma=gamma, lam=lam)


def bi_level_return(
  rewards: jax.Array,
  old_value: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  turn: levels.Level,
  *,
  turn_gamma: ranges.Fraction = 0.95,
  gamma: ranges.Fraction = 1.0,
  lam: ranges.Fraction = 1.0,
) -> jax.Array:
  """`bi_level_gae` + the value: the target of its critic."""
  target = _turn_ends(
    rewards, old_value, mask, seq, turn, turn_gamma=turn_gamma, lam=lam
  )
  return returns.lambda_return(
    target, old_value, mask, turn, gamma=gamma, lam=lam
  )


def _turn_ends(rewards, old_value, mask, seq, turn, *, turn_gamma, lam):
  """The return of each turn, on its last token."""
  end = levels.last(turn, mask)
  earned = levels.total(rewards, turn, mask)
  return returns.lambda_return(
    earned, old_value, end, seq, gamma=turn_gamma, lam=lam
  )


def outcome_of_turns(
  rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  turn: levels.Level,
  *,
  ddof: ranges.Freedom = 1,
  eps: ranges.NonNegative = 1e-6,
) -> jax.Array:
  """R normalized over the turns of the group, each of which counts once.

  GROW (arXiv:2605.20246): turns are samples of their own, so a long sequence
  weighs more in the mean. A group of one sequence gives 0.
  """
  total = levels.total(jax.lax.stop_gradient(rewards), seq, mask)
  own = jnp.where(levels.first(turn, mask), total, 0)
  made = advantages.group_normalize(own, mask, turn, group, ddof=ddof, eps=eps)
  sequences = levels.count(group, levels.last(seq, mask), made.dtype)
  return jnp.where(sequences > 1, made, 0)


def turn_return(
  rewards: jax.Array,
  old_value: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  turn: levels.Level,
  *,
  gamma: ranges.Fraction,
  lam: ranges.Fraction,
) -> jax.Array:
  """`turn_gae` + the turn's value: the target of a critic of turns.

  It is learned at each turn's first token only: see `turn_start`.
  """
  start = levels.first(turn, mask)
  earned = levels.total(rewards, turn, mask)
  target = returns.lambda_return(
    earned, old_value, start, seq, gamma=gamma, lam=lam
  )
  return jnp.where(mask, levels.total(target, turn, start), 0)


def turn_whiten(
  advantage: jax.Array, mask: jax.Array, turn: levels.Level
) -> jax.Array:
  """(A - mean) / (std + 1e-8) over the turns of the batch, each counting once.

  The deviation divides by n - 1. Follows `turn_gae` (StepPO, arXiv:2604.18401,
  official code read). One turn, or turns that agree, give 0.
  """
  own = jnp.where(levels.first(turn, mask), advantage, 0)
  batch = advantages.whole_batch(mask)
  return advantages.group_normalize(own, mask, turn, batch, eps=1e-8)


def step_return_to_go(
  rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  turn: levels.Level,
  step_of_group: levels.Level,
  *,
  gamma: ranges.Fraction = 1.0,
  ddof: ranges.Freedom = 1,
  eps: ranges.NonNegative = 1e-6,
) -> jax.Array:
  """Return-to-go of a turn, normalized over the group's turns of one index.

  Step-level GRPO as surveys describe it; no publication gives a formula. gamma
  counts turns. A turn without a peer gives 0.
  """
  start = levels.first(turn, mask)
  earned = levels.total(rewards, turn, mask)
  to_go = returns.reward_to_go(earned, start, seq, gamma=gamma)
  return advantages.group_normalize(
    to_go, mask, turn, step_of_group, ddof=ddof, eps=eps
  )


def group_process(
  rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  turn: levels.Level,
  *,
  ddof: ranges.Freedom = 1,
  eps: ranges.NonNegative = 1e-6,
) -> jax.Array:
  """The sum, from a token on, of turn rewards normalized over the group.

  GRPO with process supervision (arXiv:2402.03300, 4.1.3): mean and deviation
  are of all turns of all sequences of the group, each turn counting once. For
  scores of a process reward model read `process_rewards` in place of `rewards`.
  A group of one sequence gives 0.
  """
  relative = advantages.group_normalize(
    rewards, mask, turn, group, ddof=ddof, eps=eps
  )
  at_end = jnp.where(levels.last(turn, mask), relative, 0)
  to_go = returns.reward_to_go(at_end, mask, seq)
  sequences = levels.count(group, levels.last(seq, mask), to_go.dtype)
  return jnp.where(sequences > 1, to_go, 0)
