"""Credit of the turns of one sequence, by what is known of each.

Kernels read columns [B, T] and give a column [B, T], constant on the policy's
tokens of a turn. Nothing here carries a gradient.
"""

import jax
import jax.numpy as jnp

from arl import levels, ranges
from arl.kernels import advantages


def closing(
  mask: jax.Array, seq: levels.Level, turn: levels.Level
) -> jax.Array:
  """True on the policy's tokens of a sequence's last turn."""
  ends = levels.last(seq, mask).astype(float)
  return mask & (levels.total(ends, turn, mask) > 0)


def locked(
  rewards: jax.Array,
  process_rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  turn: levels.Level,
  *,
  eps: ranges.NonNegative = 1e-6,
) -> jax.Array:
  """Calls are credited by the scores of calls, the answer by the outcome.

  Segment-locked credit (SLCA-GRPO, arXiv:2609.29050): the sum of the scores of
  all turns but the last, normalized over the sequences of the group that have
  such turns, on those turns; R, normalized over the group, on the last. Neither
  moves the other.
  """
  last = closing(mask, seq, turn)
  called = mask & ~last
  total = levels.total(jax.lax.stop_gradient(rewards), seq, mask)
  outcome = jnp.where(levels.last(seq, last), total, 0)
  of_calls = advantages.group_normalize(
    process_rewards, called, seq, group, eps=eps
  )
  of_answer = advantages.group_normalize(outcome, last, seq, group, eps=eps)
  return jnp.where(last, of_answer, jnp.where(called, of_calls, 0))


def shifts(
  process_rewards: jax.Array,
  mask: jax.Array,
  group: levels.Level,
  turn: levels.Level,
) -> jax.Array:
  """The score of a turn, normalized over the turns of the group.

  By the population's deviation: for scores that are changes of a belief
  (GRPO-VPS, arXiv:2604.20659).
  """
  return advantages.group_normalize(
    process_rewards, mask, turn, group, ddof=0, eps=0.0
  )


def by_quality(
  advantage: jax.Array,
  process_rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  turn: levels.Level,
  *,
  most: ranges.Positive = 5.0,
) -> jax.Array:
  """A sequence's advantage, dealt to its turns by their quality Q in [0, 1].

  DRACO (arXiv:2609.04094): a turn of n tokens gets A N w / (n sum(w)) a token,
  N being the sequence's tokens and w Q where A > 0, 1 - Q where A < 0; in sum
  it is what it was. Ours: no token gets more than `most` times A, and where all
  w are 0 each gets A.
  """
  quality = jnp.clip(levels.total(process_rewards, turn, mask), 0, 1)
  weight = jnp.where(advantage >= 0, quality, 1 - quality)
  once = levels.first(turn, mask)
  whole = levels.total(jnp.where(once, weight, 0), seq, mask)
  length = levels.count(turn, mask, weight.dtype)
  tokens = levels.count(seq, mask, weight.dtype)
  share = tokens * weight / jnp.where(mask, length, 1)
  factor = jnp.where(whole > 0, share / jnp.where(whole > 0, whole, 1), 1)
  made = advantage * jnp.minimum(factor, most)
  return jax.lax.stop_gradient(jnp.where(mask, made, 0))


def by_feedback(
  advantage: jax.Array,
  hindsight_logp: jax.Array,
  rollout_logp: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  turn: levels.Level,
  *,
  kappa: ranges.NonNegative = 1.0,
  least: ranges.Positive = 0.25,
  most: ranges.Positive = 4.0,
) -> jax.Array:
  """A sequence's advantage, dealt to its turns by what came of them.

  BATON's attribution (arXiv:2609.19830), in our form: e is by how much likelier
  a turn is, nats a token, to who knows what the environment answered. By Bayes
  that is how much of the answer is owed to it. Weights are exp(kappa sign(A) e)
  over their mean over the sequence's turns, cut at `least` and `most`.
  """
  evidence = levels.mean(hindsight_logp - rollout_logp, turn, mask)
  tilt = kappa * jnp.sign(advantage) * evidence
  once = levels.first(turn, mask)
  top = levels.highest(tilt, seq, once)
  weight = jnp.exp(tilt - jnp.where(jnp.isfinite(top), top, 0))
  mean = levels.mean(jnp.where(once, weight, 0), seq, once)
  cut = jnp.clip(weight / jnp.where(mean > 0, mean, 1), least, most)
  return jax.lax.stop_gradient(jnp.where(mask, advantage * cut, 0))
