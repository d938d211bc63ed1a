"""Credit by states: turns of a group that answer what was shown alike.

`state` numbers what the environment shows before a turn (`Env.anchor`), never
the prompt: that holds the history, and no two would be alike. Turns of several
tasks never share a state. Kernels read columns [B, T] and give a column [B, T],
constant on the policy's tokens of a turn. A sequence must lie in one row.
Nothing here carries a gradient.
"""

import jax
import jax.numpy as jnp

from arl import levels, ranges
from arl.kernels import advantages, credit, returns, scans


def plus(
  advantage: jax.Array,
  turn_advantage: jax.Array,
  *,
  coef: ranges.Finite = 1.0,
) -> jax.Array:
  """advantage + coef * turn_advantage: credit at two scales, added up."""
  return advantage + coef * turn_advantage


def shared(
  mask: jax.Array, turn: levels.Level, state: levels.Level
) -> jax.Array:
  """1 on the tokens of turns whose state another turn answers too, else 0."""
  met = levels.count(state, levels.first(turn, mask))
  return jnp.where(mask & (met > 1), 1.0, 0.0)


def following(
  x: jax.Array, start: jax.Array, seq: levels.Level, at_end: jax.Array
) -> jax.Array:
  """What the sequence's next turn has, on each first token of a turn.

  Args:
    x: [B, T], read where `start` is true.
    start: bool [B, T], true on the first token of each turn.
    seq: the sequences.
    at_end: [B, T] or [B, 1], what a last turn gets.
  """

  def step(carry, columns):
    _, later = carry
    return later, columns[0]

  made = scans.back(step, start, seq, x, carried=2)
  return jnp.where(levels.last(seq, start), at_end, made)


def return_to_go(
  rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  turn: levels.Level,
  state: levels.Level,
  *,
  gamma: ranges.Fraction = 0.95,
  eps: ranges.NonNegative = 1e-6,
) -> jax.Array:
  """Return-to-go of a turn, normalized over the turns that answer its state.

  The step's advantage of GiGPO (arXiv:2505.10978). A state that was met once
  gives 0.
  """
  return credit.step_return_to_go(
    rewards, mask, seq, turn, state, gamma=gamma, eps=eps
  )


def worth(
  rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  turn: levels.Level,
  state: levels.Level,
  *,
  gamma: ranges.Fraction,
) -> jax.Array:
  """V of the state that a turn answers, on the first token of each turn.

  The mean over all visits of the group of gamma^n R, R being what the sequence
  earned in all and n its turns from the visit on, this one included. A sequence
  that comes back counts at each visit.
  """
  start = levels.first(turn, mask)
  left = returns.reward_to_go(start.astype(rewards.dtype), start, seq)
  earned = levels.total(jax.lax.stop_gradient(rewards), seq, mask)
  each = jnp.where(start, gamma**left * earned, 0)
  return jnp.where(start, levels.mean(each, state, start), 0)


def _arrived(rewards, mask, seq, turn, state, gamma):
  """Of each turn, at its first token: V before it, V after it, and the mark.

  After the last turn it is what the sequence earned.
  """
  start = levels.first(turn, mask)
  before = worth(rewards, mask, seq, turn, state, gamma=gamma)
  earned = levels.total(jax.lax.stop_gradient(rewards), seq, mask)
  after = following(before, start, seq, earned)
  return before, jnp.where(start, after, 0), start


def way_out(
  rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  turn: levels.Level,
  state: levels.Level,
  *,
  gamma: ranges.Fraction = 0.95,
  eps: ranges.NonNegative = 1e-6,
) -> jax.Array:
  """V of where a turn leads, normalized over the turns that leave its state.

  The node part of G2PO (arXiv:2606.22995, official code read). A state that
  was left once gives 0.
  """
  _, after, _ = _arrived(rewards, mask, seq, turn, state, gamma)
  return advantages.group_normalize(after, mask, turn, state, eps=eps)


def gain(
  rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  turn: levels.Level,
  state: levels.Level,
  *,
  gamma: ranges.Fraction = 0.95,
  eps: ranges.NonNegative = 1e-6,
) -> jax.Array:
  """V after a turn less V before it, normalized over all turns of the group.

  The edge part of G2PO (arXiv:2606.22995, official code read): a state that was
  met once still tells its turn what it gained.
  """
  before, after, _ = _arrived(rewards, mask, seq, turn, state, gamma)
  gained = after - before
  return advantages.group_normalize(gained, mask, turn, group, eps=eps)


def way_out_and_gain(
  rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  turn: levels.Level,
  state: levels.Level,
  *,
  gamma: ranges.Fraction = 0.95,
  eps: ranges.NonNegative = 1e-6,
) -> jax.Array:
  """`way_out` + `gain`: the step's advantage of G2PO (arXiv:2606.22995)."""
  shared_by_both = rewards, mask, seq
  out = way_out(*shared_by_both, turn, state, gamma=gamma, eps=eps)
  return out + gain(*shared_by_both, group, turn, state, gamma=gamma, eps=eps)


def shorter(
  rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  turn: levels.Level,
  state: levels.Level,
  *,
  eps: ranges.NonNegative = 1e-6,
) -> jax.Array:
  """How few tokens a turn's end cost, beside others that lead to its state.

  The efficiency of GraphPO (arXiv:2606.18954) on the edges into a state, in our
  definition: minus the policy's tokens up to the end of the turn, normalized
  over the turns that lead to one state; 0 where that state is worth nothing,
  and after a last turn.
  """
  _, after, start = _arrived(rewards, mask, seq, turn, state, 1.0)
  length = levels.count(turn, mask, rewards.dtype)
  all_of_it = levels.count(seq, mask, rewards.dtype)
  to_go = returns.reward_to_go(length, start, seq)
  cost = jnp.where(start, all_of_it - to_go + length, 0)
  next_state = following(
    state.ids.astype(rewards.dtype), start, seq, jnp.asarray(-1, rewards.dtype)
  )
  there = start & (next_state >= 0) & (after > 0)
  ids = jnp.where(there, next_state, state.num).astype(jnp.int32)
  into = levels.Level(
    levels.total(ids.astype(rewards.dtype), turn, start).astype(jnp.int32),
    state.num + 1,
  )
  made = advantages.group_normalize(-cost, mask, turn, into, eps=eps)
  kept = levels.total(there.astype(rewards.dtype), turn, start) > 0
  return jnp.where(kept, made, 0)


def way_out_and_shorter(
  rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  turn: levels.Level,
  state: levels.Level,
  *,
  efficiency: ranges.NonNegative = 0.2,
  eps: ranges.NonNegative = 1e-6,
) -> jax.Array:
  """`way_out` without discount + efficiency * `shorter`: credit of GraphPO."""
  columns = rewards, mask, seq, turn, state
  out = way_out(*columns, gamma=1.0, eps=eps)
  return out + efficiency * shorter(*columns, eps=eps)


def completed_return(
  rewards: jax.Array,
  process_rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  turn: levels.Level,
  *,
  gamma: ranges.Fraction = 0.95,
) -> jax.Array:
  """What a turn's rubric pays from it on, and the outcome from afar.

  TRCA (arXiv:2608.16156): the discounted sum of the scores of the turns from
  this one on, plus gamma^n R with n turns from this one on and R what the
  sequence earned in all.
  """
  start = levels.first(turn, mask)
  scored = levels.total(process_rewards, turn, mask)
  to_go = returns.reward_to_go(scored, start, seq, gamma=gamma)
  left = returns.reward_to_go(start.astype(rewards.dtype), start, seq)
  earned = levels.total(rewards, seq, mask)
  made = jnp.where(start, to_go + gamma**left * earned, 0)
  return jax.lax.stop_gradient(levels.total(made, turn, start))


def completed_advantage(
  rewards: jax.Array,
  process_rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  turn: levels.Level,
  state: levels.Level,
  *,
  gamma: ranges.Fraction = 0.95,
  eps: ranges.NonNegative = 1e-6,
) -> jax.Array:
  """`completed_return` normalized over the turns that answer one state.

  TRCA groups decisions whose context has one structure; here that is what the
  environment calls one state. Not 0 where all of a group failed.
  """
  returned = completed_return(
    rewards, process_rewards, mask, seq, turn, gamma=gamma
  )
  own = jnp.where(levels.first(turn, mask), returned, 0)
  return advantages.group_normalize(own, mask, turn, state, eps=eps)
