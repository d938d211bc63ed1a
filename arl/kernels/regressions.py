"""Regressions: objectives with a target, of sequences against each other.

A kernel reads columns [B, T] and gives the column `objective` [B, T]: the same
number, -loss, on every token of what it compares. Those that read `group`
compare the sequences of a group: average them by `aggregations.group_mean`, and
a microbatch keeps groups whole. A group without a comparison gives exactly 0.

Targets are credit: steps named 'target', without a gradient.
"""

import jax
import jax.numpy as jnp

from arl import levels, ranges
from arl.kernels import advantages


def mirror_descent(
  log_ratio: jax.Array, advantage: jax.Array, *, tau: ranges.Positive
) -> jax.Array:
  """-(advantage - tau * log_ratio)^2.

  Online policy mirror descent, Kimi k1.5, arXiv:2501.12599, eq. 3: the ratio is
  of whole sequences (`ratios.trajectory`) to the policy that began the
  iteration, the advantage R - mean of the group, which stands for the
  normalizer. Average by `aggregations.sequence_mean`. There is no clip: tau is
  what holds the policy back, also where the advantage is 0.
  """
  return -jnp.square(advantage - tau * log_ratio)


def listwise_target(
  advantage: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  *,
  tau: ranges.Positive = 1.0,
) -> jax.Array:
  """Log of softmax(advantage / tau) over the sequences of a group.

  LPO, arXiv:2605.06139. A constant in a group changes nothing, so with
  `advantages.group_center` it is that of R / tau (as Dr. GRPO), and with
  `advantages.group_normalize`, ddof=0 and eps=0, that of R over the group's
  deviation (as GRPO). The paper adds the scores at the start of the step; with
  `old_logp` from there they are 0.
  """
  score = jnp.where(mask, advantage / tau, 0)
  target = levels.log_softmax(score, group, levels.last(seq, mask))
  return jax.lax.stop_gradient(jnp.where(mask, target, 0))


def listwise_target_by_mean(
  rewards: jax.Array, mask: jax.Array, seq: levels.Level, group: levels.Level
) -> jax.Array:
  """Log of softmax(R / mean of the group): LPO's form of MaxRL.

  A group whose mean is not positive has an even target: no comparison.
  """
  centered = advantages.group_center(rewards, mask, seq, group)
  once = levels.last(seq, mask)
  mean = levels.mean(levels.total(rewards, seq, mask), group, once)
  scaled = jnp.where(mean > 0, centered / jnp.where(mean > 0, mean, 1), 0)
  return listwise_target(scaled, mask, seq, group)


def _listwise(log_ratio, target, mask, seq, group):
  """Log policy and log target, one mark a sequence, where targets differ."""
  once = levels.last(seq, mask)
  target = jax.lax.stop_gradient(jnp.where(once, target, 0))
  top = levels.highest(target, group, once)
  differ = top > levels.lowest(target, group, once)
  return _log_shares(log_ratio, group, once), target, once, mask & differ


def _log_shares(score, group, once):
  """Log of the softmax over a group where `once`, otherwise 0."""
  kept = jnp.where(once, score, 0)
  return jnp.where(once, levels.log_softmax(kept, group, once), 0)


def _kl(log_p, log_q, group, once):
  """KL(p || q) over the sequences of a group."""
  return levels.total(jnp.exp(log_p) * (log_p - log_q), group, once)


def listwise_forward(
  log_ratio: jax.Array,
  target: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
) -> jax.Array:
  """-KL(target || softmax of the log-ratios) over a group.

  LPO, arXiv:2605.06139: the ratios are of whole sequences
  (`ratios.trajectory`). The gradient in a sequence's log-ratio is its target
  less its share; to first order and on policy that is GRPO's, over the group
  size.
  """
  policy, target, once, differ = _listwise(log_ratio, target, mask, seq, group)
  return jnp.where(differ, -_kl(target, policy, group, once), 0)


def listwise_reverse(
  log_ratio: jax.Array,
  target: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
) -> jax.Array:
  """-KL(softmax of the log-ratios || target) over a group (LPO)."""
  policy, target, once, differ = _listwise(log_ratio, target, mask, seq, group)
  return jnp.where(differ, -_kl(policy, target, group, once), 0)


def correct(
  rewards: jax.Array, mask: jax.Array, seq: levels.Level
) -> jax.Array:
  """1 in a sequence with R > 0, otherwise 0: a target."""
  score = levels.total(rewards, seq, mask)
  return jnp.where(score > 0, jnp.ones((), score.dtype), 0)


def _contrast(logp, target, progress, mask, seq, group, tau, margin):
  """Mean log-probs over tau, those of correct sequences less the margin."""
  once = levels.last(seq, mask)
  right, wrong = once & (target > 0), once & (target <= 0)
  mean = levels.mean(logp, seq, mask)
  less = jnp.where(right, margin * jnp.asarray(progress, logp.dtype), 0)
  score = jnp.where(once, (mean - less) / tau, 0)
  both = (levels.count(group, right) > 0) & (levels.count(group, wrong) > 0)
  return score, right, wrong, mask & both


def contrastive(
  logp: jax.Array,
  target: jax.Array,
  progress: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  *,
  tau: ranges.Positive = 0.5,
  margin: ranges.NonNegative = 0.2,
) -> jax.Array:
  """Each correct sequence of a group against all wrong ones.

  ConSPO, arXiv:2605.12969: the mean over correct sequences of log(e^p / (e^p +
  sum of e^n)), a score being the mean log-prob over tau, that of the correct
  one less a margin which grows to `margin` as the run goes on. There is no
  ratio: the data has to be recent. `target` is that of `correct`; tau and the
  margin are not public, both are ours. A group without a correct or without a
  wrong sequence gives 0.
  """
  score, right, wrong, both = _contrast(
    logp, target, progress, mask, seq, group, tau, margin
  )
  total = score - levels.log_softmax(score, group, wrong)
  each = jax.nn.softplus(jnp.where(right & both, total - score, 0))
  return jnp.where(both, -levels.mean(each, group, right), 0)


def contrastive_all(
  logp: jax.Array,
  target: jax.Array,
  progress: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  *,
  tau: ranges.Positive = 0.5,
  margin: ranges.NonNegative = 0.2,
) -> jax.Array:
  """`contrastive`, with all correct sequences in the denominator.

  As an unofficial description of ConSPO has it. Correct sequences compete with
  each other, so a likely one is held back until the others have caught up.
  """
  score, right, wrong, both = _contrast(
    logp, target, progress, mask, seq, group, tau, margin
  )
  each = levels.log_softmax(score, group, right | wrong)
  return jnp.where(both, levels.mean(each, group, right), 0)


def moved_mass(
  rewards: jax.Array, mask: jax.Array, seq: levels.Level, group: levels.Level
) -> jax.Array:
  """1 for the best sequence of a group, -1 for the worst, otherwise 0.

  A target: where probability is to go and where it is to come from. Sequences
  that tie share it evenly. In a group that all tie there is none.
  """
  centered = advantages.group_center(rewards, mask, seq, group)
  once = levels.last(seq, mask)
  best = centered == levels.highest(centered, group, once)
  worst = centered == levels.lowest(centered, group, once)
  n_best, n_worst = (
    jnp.maximum(levels.count(group, once & where, centered.dtype), 1)
    for where in (best, worst)
  )
  move = jnp.where(best, 1 / n_best, 0) - jnp.where(worst, 1 / n_worst, 0)
  return jnp.where(mask, move, 0)


def _after_move(log_old, move, delta, group, once):
  """log(old + delta * move), delta at most half of what can be taken."""
  old = jnp.exp(log_old)
  taken = move < 0
  left = jnp.where(taken, old / jnp.where(taken, -move, 1), jnp.inf)
  delta = jnp.minimum(delta, levels.lowest(left, group, once) / 2)
  gain = jnp.where(move > 0, delta * move, 0)
  share = delta * move / jnp.where(old > 0, old, 1)
  log_gain = jnp.log(jnp.where(gain > 0, gain, 1))
  more = jnp.where(gain > 0, jnp.logaddexp(log_old, log_gain), log_old)
  less = log_old + jnp.log1p(jnp.clip(share, -0.5, 0))
  return jnp.where(taken, less, more)


def _pair(log_pi, log_old, target, iteration, group, once, settings):
  """-(KL(pi || moved old) + alpha * max(KL(pi || old) - beta, 0))."""
  delta, gamma, alpha, beta = settings
  move = jax.lax.stop_gradient(jnp.where(once, target, 0))
  log_old = jax.lax.stop_gradient(log_old)
  delta = delta * gamma ** jnp.asarray(iteration, log_old.dtype)
  log_q = _after_move(log_old, move, delta, group, once)
  drift = _kl(log_pi, log_old, group, once) - beta
  penalty = alpha * jnp.where(drift > 0, drift, 0)
  loss = _kl(log_pi, log_q, group, once) + penalty
  differ = levels.highest(move, group, once) > 0
  return jnp.where(differ, -loss, 0)


def pair_hard(
  logp: jax.Array,
  old_logp: jax.Array,
  target: jax.Array,
  iteration: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  *,
  delta: ranges.Positive = 0.02,
  gamma: ranges.Fraction = 0.98,
  alpha: ranges.NonNegative = 0.5,
  beta: ranges.NonNegative = 0.01,
) -> jax.Array:
  """Pulls the policy to the old one with some mass moved from worst to best.

  Pair-GRPO, hard form, arXiv:2605.06375: with q the old distribution after
  delta * gamma^iteration of its mass has moved as `moved_mass` says,
  KL(pi || q) + alpha * max(KL(pi || old) - beta, 0). Ours: the distribution is
  over the sequences of the group, in proportion to their likelihoods, and at
  most half of what the worst one has is moved. Candidates that are neither best
  nor worst get a gradient too, against the paper: a softmax has no other way.

  Likelihoods of long sequences lie so far apart that one holds all the mass
  and nothing can move; use `pair_hard_relative` then.
  """
  once = levels.last(seq, mask)
  log_pi, log_old = (
    _log_shares(levels.total(x, seq, mask), group, once)
    for x in (logp, old_logp)
  )
  settings = delta, gamma, alpha, beta
  return _pair(log_pi, log_old, target, iteration, group, once, settings)


def pair_hard_relative(
  log_ratio: jax.Array,
  target: jax.Array,
  iteration: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  *,
  delta: ranges.Positive = 0.02,
  gamma: ranges.Fraction = 0.98,
  alpha: ranges.NonNegative = 0.5,
  beta: ranges.NonNegative = 0.01,
) -> jax.Array:
  """`pair_hard` on ratios of whole sequences: the old distribution is even.

  Scores relative to the old policy make sampled candidates alike, whatever
  their length. `log_ratio` is that of `ratios.trajectory`; the form is ours.
  """
  once = levels.last(seq, mask)
  log_pi = _log_shares(log_ratio, group, once)
  log_old = _log_shares(jnp.zeros_like(log_ratio), group, once)
  settings = delta, gamma, alpha, beta
  return _pair(log_pi, log_old, target, iteration, group, once, settings)
