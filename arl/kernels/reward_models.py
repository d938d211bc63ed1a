"""Reward models: what they are trained to say of sequences and of steps.

A reward model is a critic that reads what was said, the last token included:
the column `value_after`. Its score of a sequence is that after the sequence's
last token, its score of a step that after the last token of the turn. Scores
are log-odds, so that a sigmoid makes chances of them.
"""

import jax
import jax.numpy as jnp

from arl import levels, ranges
from arl.kernels import returns


def outcome(
  value_after: jax.Array, mask: jax.Array, seq: levels.Level
) -> jax.Array:
  """The score of a sequence: that after its last token.

  It takes the place of a log-ratio in the losses of pairs: `preference.sigmoid`
  with beta = 1 is Bradley and Terry's likelihood, arXiv:2203.02155, eq. 1.
  """
  return levels.total(value_after, seq, levels.last(seq, mask))


def off_center(
  log_ratio: jax.Array,
  preferred: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  *,
  coef: ranges.NonNegative = 0.01,
) -> jax.Array:
  """coef * (r_w + r_l)^2, of the scores of a pair: 0 where they are about 0.

  A difference alone leaves open where scores lie (arXiv:2312.09244).
  """
  marked = levels.last(seq, mask) & (preferred != 0)
  size = jnp.abs(jnp.where(marked, preferred, 0))
  both = levels.total(log_ratio * size, group, marked)
  return jnp.where(mask, coef * jnp.square(both), 0)


def judged(
  rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  above: ranges.Finite = 0.5,
) -> jax.Array:
  """The column `preferred` of single answers: 1 if R > `above`, else -1."""
  good = levels.total(rewards, seq, mask) > above
  return jnp.where(mask, jnp.where(good, 1.0, -1.0), 0)


def labelled(log_ratio: jax.Array, preferred: jax.Array) -> jax.Array:
  """-log sigmoid of the score of a good sequence, of its negative of a bad one.

  The binary cross-entropy of an outcome reward model (arXiv:2110.14168).
  """
  loss = jax.nn.softplus(-preferred * log_ratio)
  return jnp.where(preferred != 0, loss, 0)


def balanced(
  preferred: jax.Array, mask: jax.Array, seq: levels.Level
) -> jax.Array:
  """Weights of a mean over the good and one over the bad, which count alike.

  On the last token of each sequence. Of one class alone it is the mean over
  that. Sums to 1, or to 0 if there is neither.
  """
  once = levels.last(seq, mask)
  good, bad = (once & (preferred * sign > 0) for sign in (1, -1))

  def share(where):
    n = jnp.sum(where, dtype=float)
    return jnp.where(where, 1 / jnp.maximum(n, 1), 0.0)

  both = jnp.any(good) & jnp.any(bad)
  return (share(good) + share(bad)) * jnp.where(both, 0.5, 1.0)


def step_end(mask: jax.Array, turn: levels.Level) -> jax.Array:
  """The column `kept` of a model of steps: true on each turn's last token."""
  return levels.last(turn, mask)


def cross_entropy(value_after: jax.Array, target: jax.Array) -> jax.Array:
  """-y log p - (1 - y) log(1 - p), p the sigmoid of the score, y the target.

  A target of 0 to 1, hard or soft, on the token whose score it is of. The loss
  of a process reward model (arXiv:2305.20050; arXiv:2312.08935, eq. 1).
  """
  y, z = jax.lax.stop_gradient(target), value_after
  return y * jax.nn.softplus(-z) + (1 - y) * jax.nn.softplus(z)


def discounted_outcome(
  rewards: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  turn: levels.Level,
  *,
  gamma: ranges.Fraction = 0.95,
) -> jax.Array:
  """(1 + gamma^k (2 R - 1)) / 2 of a turn with k turns after it.

  AgentPRM's target (arXiv:2502.10325), R being 0 to 1: a success that is far
  away counts less, and so does a failure. That rollouts which share a step are
  averaged is what the cross-entropy does. The official code counts k from the
  start of a rollout, where the paper's Q is discounted to its end.
  """
  ends = levels.last(turn, mask)
  ended = 2 * levels.total(rewards, seq, mask) - 1
  last = jnp.where(levels.last(seq, mask), ended, 0)
  to_go = returns.reward_to_go(last, ends, seq, gamma=gamma)
  return jax.lax.stop_gradient(jnp.where(ends, (1 + to_go) / 2, 0))


# What to watch.


def right(log_ratio: jax.Array, preferred: jax.Array) -> jax.Array:
  """1 where the score has the sign of the label."""
  return jnp.where(log_ratio * preferred > 0, 1.0, 0.0)


def surplus(log_ratio: jax.Array, preferred: jax.Array) -> jax.Array:
  """The chance that a score claims, less the label: 0 in the mean if honest."""
  surplus = jax.nn.sigmoid(log_ratio) - jnp.where(preferred > 0, 1.0, 0.0)
  return jnp.where(preferred != 0, surplus, 0)


def agreement(
  value_after: jax.Array,
  target: jax.Array,
  mask: jax.Array,
  turn: levels.Level,
) -> jax.Array:
  """1 on the tokens of a turn whose score and target are on one side of 1/2."""
  ends = levels.last(turn, mask)
  agrees = jnp.where((value_after > 0) == (target > 0.5), 1.0, 0.0)
  return jnp.where(mask, levels.total(agrees, turn, ends), 0)


def endogenous(chosen: jax.Array, total: jax.Array) -> jax.Array:
  """Rewards that the logits of a model of language imply: Q(s, a) - V(s').

  Inverse soft Q (arXiv:2506.23235) at temperature 1: logits are Q, V is their
  logsumexp, and 0 after the last token. The sum is log pi(y | x) + V(s_1), so
  that the outcome of a group is ranked by likelihood, and longer is worse: read
  the mean over tokens. Logits must be raw: V of a state moves with a constant
  added there.

  Args:
    chosen: [n], logits of the tokens that were chosen, in their order.
    total: [n], logsumexp of the logits that each was chosen from.
  """
  return chosen - jnp.append(total[1:], jnp.zeros(1, total.dtype))
