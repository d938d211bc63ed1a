"""Advantages from whole-sequence rewards, against a baseline from the group.

A kernel reads columns [B, T] and gives the column `advantage` [B, T], constant
on each sequence where nothing else is said. R is the sum of a sequence's
rewards; each sequence counts once, however long it is. A group of one, or whose
rewards are all equal up to rounding, gives exactly 0: it holds no comparison.
Kernels that read `advantage` are steps that follow another kernel. Nothing here
carries a gradient.
"""

import math

import jax
import jax.numpy as jnp

from arl import levels, ranges
from arl.kernels import returns


def _compare(rewards, mask, seq, group):
  """R of each token's sequence, one mark a sequence, and where R varies.

  R and the mark are [B, 1] where sequences and groups have an id a row.
  """
  rewards = jax.lax.stop_gradient(rewards)
  score = levels.total(rewards, seq, mask)
  once = levels.once(seq, mask, group)
  top = levels.highest(score, group, once)
  bottom = levels.lowest(score, group, once)
  size = levels.highest(levels.total(jnp.abs(rewards), seq, mask), group, once)
  varies = top - bottom > 4 * jnp.finfo(score.dtype).eps * size
  return score, once, mask & varies


def comparable(
  rewards: jax.Array, mask: jax.Array, seq: levels.Level, group: levels.Level
) -> jax.Array:
  """True in a group whose rewards differ: the others have no comparison."""
  _, _, varies = _compare(rewards, mask, seq, group)
  return varies


def whole_batch(mask: jax.Array) -> levels.Level:
  """The level with one segment, the batch."""
  return levels.Level(jnp.zeros((mask.shape[0], 1), jnp.int32), 1)


def group_center(
  rewards: jax.Array, mask: jax.Array, seq: levels.Level, group: levels.Level
) -> jax.Array:
  """R - mean of the group (Dr. GRPO, arXiv:2503.20783, eq. 3)."""
  score, once, varies = _compare(rewards, mask, seq, group)
  return jnp.where(varies, score - levels.mean(score, group, once), 0)


def group_normalize(
  rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  *,
  ddof: ranges.Freedom = 1,
  eps: ranges.NonNegative = 1e-6,
) -> jax.Array:
  """(R - mean) / (std + eps) within the group (GRPO, arXiv:2402.03300, 4.1.2).

  The paper does not say which deviation; as in the public trainers it is the
  sample one (n - 1), and with ddof=0 that of the population (n). Where they
  treat a group of one otherwise, here it gives 0.
  """
  score, once, varies = _compare(rewards, mask, seq, group)
  centered = score - levels.mean(score, group, once)
  deviation = levels.std(score, group, once, ddof=ddof)
  return jnp.where(varies, centered / (deviation + eps), 0)


def group_scale(
  advantage: jax.Array,
  rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  *,
  ddof: ranges.Freedom = 1,
  eps: ranges.NonNegative = 1e-6,
) -> jax.Array:
  """An advantage / (std + eps) of its group's R: the other half of GRPO's."""
  score, once, varies = _compare(rewards, mask, seq, group)
  deviation = levels.std(score, group, once, ddof=ddof)
  scaled = jnp.where(varies, advantage / (deviation + eps), 0)
  return jax.lax.stop_gradient(scaled)


def leave_one_out(
  rewards: jax.Array, mask: jax.Array, seq: levels.Level, group: levels.Level
) -> jax.Array:
  """R - mean of the others of the group (RLOO, arXiv:2402.14740, eq. 8)."""
  score, once, varies = _compare(rewards, mask, seq, group)
  n = levels.count(group, once, score.dtype)
  centered = score - levels.mean(score, group, once)
  return jnp.where(varies, centered * n / jnp.maximum(n - 1, 1), 0)


def batch_scaled(
  rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  *,
  eps: ranges.NonNegative = 1e-6,
) -> jax.Array:
  """(R - mean of the group) / (std of all R of the batch + eps).

  Lite PPO (arXiv:2508.08221): a group's own deviation exaggerates prompts that
  are nearly always or nearly never solved. The sample deviation, of R itself.
  """
  score, once, varies = _compare(rewards, mask, seq, group)
  centered = score - levels.mean(score, group, once)
  deviation = levels.std(score, whole_batch(mask), once)
  return jnp.where(varies, centered / (deviation + eps), 0)


def across_groups(
  advantage: jax.Array,
  rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  *,
  coef: ranges.Finite = 0.1,
  eps: ranges.NonNegative = 1e-6,
) -> jax.Array:
  """An advantage + coef * the group's mean R, normalized over the groups.

  What a survey takes for GiGPO; see `arl.methods.states.gigpo_across` for what
  it does. A batch of one group adds 0.
  """
  score = levels.total(jax.lax.stop_gradient(rewards), seq, mask)
  average = levels.mean(score, group, levels.once(seq, mask, group))
  one = jnp.where(levels.last(group, mask), average, 0)
  added = group_normalize(one, mask, group, whole_batch(mask), eps=eps)
  return jnp.where(mask, advantage + coef * added, 0)


def sign_balanced(
  rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  *,
  scale: ranges.Positive = 1.0,
) -> jax.Array:
  """`scale` for a correct sequence, -scale * n_correct / n_wrong for a wrong.

  SignBalance (arXiv:2609.04063): only the verifier's sign counts, R > 0 being
  correct, and a group sums to 0. A group without a correct or without a wrong
  sequence gives 0, where the paper's scalars are not defined.
  """
  score, once, varies = _compare(rewards, mask, seq, group)
  correct = score > 0
  right = levels.count(group, once & correct, score.dtype)
  wrong = levels.count(group, once & ~correct, score.dtype)
  signed = jnp.where(correct, scale, -scale * right / jnp.maximum(wrong, 1))
  return jnp.where(varies & (right > 0) & (wrong > 0), signed, 0)


def pair_sign(
  rewards: jax.Array, mask: jax.Array, seq: levels.Level, group: levels.Level
) -> jax.Array:
  """1 for the better, -1 for the worse of a group of two; a tie gives 0.

  Pair-GRPO, soft form (arXiv:2605.06375). It is `group_normalize` with ddof=0
  and eps=0 on such groups. A group of another size is no pair: 0.
  """
  score, once, varies = _compare(rewards, mask, seq, group)
  pair = levels.count(group, once, score.dtype) == 2
  above = jnp.sign(score - levels.mean(score, group, once))
  return jnp.where(varies & pair, above, 0)


def best_of_group(
  rewards: jax.Array, mask: jax.Array, seq: levels.Level, group: levels.Level
) -> jax.Array:
  """Highest R - second highest R for the group's best sequence, 0 for others.

  For pass@k (arXiv:2503.19595). The public trainer that has it divides by the
  group's deviation: follow it by `group_scale`. A tie for the best gives 0.
  """
  score, once, varies = _compare(rewards, mask, seq, group)
  best = score >= levels.highest(score, group, once)
  one_best = levels.last(group, once & best)
  second = levels.highest(score, group, once & ~one_best)
  return jnp.where(varies & best, score - second, 0)


def length_weighted(
  rewards: jax.Array, mask: jax.Array, seq: levels.Level, group: levels.Level
) -> jax.Array:
  """R - sum(length * R) / sum(length) of the group (OPO, arXiv:2505.23585).

  The baseline of least variance if the gradients of tokens are uncorrelated and
  of one size. The length counts the policy's tokens.
  """
  score, once, varies = _compare(rewards, mask, seq, group)
  length = levels.count(seq, mask, score.dtype)
  weighted = levels.total(length * score, group, once)
  baseline = weighted / jnp.maximum(levels.total(length, group, once), 1)
  return jnp.where(varies, score - baseline, 0)


def over_constant(
  rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  baseline: ranges.Finite = 0.0,
) -> jax.Array:
  """R - baseline, the same for all: with rewards of +1 and -1 the baseline is 0
  (TOPR, arXiv:2503.14286). It needs no group."""
  score = levels.total(rewards, seq, mask)
  return jax.lax.stop_gradient(jnp.where(mask, score - baseline, 0))


def greedy_baseline(
  rewards: jax.Array, baseline: jax.Array, mask: jax.Array, seq: levels.Level
) -> jax.Array:
  """Reward-to-go less the greedy response's reward (ReMax, arXiv:2310.10505).

  It needs no group. Constant on a sequence if its reward comes at the end.
  """
  to_go = returns.reward_to_go(rewards, mask, seq)
  return jax.lax.stop_gradient(jnp.where(mask, to_go - baseline, 0))


def rare_correct(
  advantage: jax.Array,
  rewards: jax.Array,
  old_logp: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  *,
  tau: ranges.Fraction = 0.2,
  floor: ranges.Positive = 1e-6,
) -> jax.Array:
  """Moves the advantage of correct sequences towards those that are unlikely.

  UCPO (arXiv:2605.00365, official code read). Among the n >= 2 correct (R > 0)
  sequences of a group, q is the softmax of their mean log-prob, at least
  `floor`, and w = (1 - tau) / n + tau * (1 / q) / sum(1 / q); their advantage
  is multiplied by n w, which sums to n. It follows `group_normalize`, there
  with eps=1e-8.
  """
  score, once, _ = _compare(rewards, mask, seq, group)
  correct = once & (score > 0)
  mean_logp = levels.mean(old_logp, seq, mask)
  log_q = levels.log_softmax(mean_logp, group, correct)
  inverse = jnp.exp(-jnp.clip(log_q, math.log(floor), 0))
  n = levels.count(group, correct, score.dtype)
  shared = levels.total(inverse, group, correct)
  weight = 1 - tau + tau * n * inverse / jnp.where(n > 0, shared, 1)
  moved = jnp.where((score > 0) & (n > 1), advantage * weight, advantage)
  return jax.lax.stop_gradient(jnp.where(mask, moved, 0))


def amplified(
  advantage: jax.Array, *, alpha: ranges.Positive = 2.0
) -> jax.Array:
  """alpha * A where A > 0, otherwise A.

  Positive amplification (R3L, arXiv:2601.03715): where most of a group fails,
  what did succeed outweighs the failures. The paper's is not public; a fixed
  alpha is ours.
  """
  return jnp.where(advantage > 0, alpha * advantage, advantage)


def entropy_weighted(
  advantage: jax.Array,
  old_entropy: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  positive: ranges.Fraction = 0.5,
  negative: ranges.Fraction = 0.5,
) -> jax.Array:
  """Moves a sequence's advantage to the tokens of high entropy, keeping signs.

  EAPO (arXiv:2604.11056) gives the mechanism, no formula; ours is A * w,
  w = clip(1 + a (H / mean H - 1), 0, 2), with a = `positive` where A > 0 and
  `negative` where A < 0. Until w is clipped its mean over a sequence is 1, and
  it is 1 where the mean entropy is 0.
  """
  typical = levels.mean(old_entropy, seq, mask)
  relative = old_entropy / jnp.where(typical > 0, typical, 1)
  strength = jnp.where(advantage > 0, positive, negative)
  weight = jnp.clip(1 + strength * (relative - 1), 0, 2)
  weight = jnp.where(typical > 0, weight, 1)
  return jax.lax.stop_gradient(jnp.where(mask, advantage * weight, 0))
