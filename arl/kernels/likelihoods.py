"""Credit from the likelihood of a reference answer: the Tsallis continuum.

A sequence is a sample z of the policy followed by a reference answer y*, which
`answer` marks; both are on the mask. Its weight is w = pi(y* | x, z), the group
holds M samples of a prompt, and mean(w) estimates P = pi(y* | x). The loss
(1 - P^(1 - q)) / (1 - q) leads from maximizing P (q = 0, reinforcement learning
with the likelihood as reward) to maximizing log P (q = 1, imitation through a
latent z); its gradient is that of P times P^-q (arXiv:2604.25907).

Kernels give the column `advantage` [B, T] for `surrogates.reinforce` under
`aggregations.sequence_sum`, whose mean over sequences is the 1 / M. As mean(w)
is in the factor, the gradient is biased by O(q / (M P^(q + 1))). Where mean(w)
underflows the group is skipped: 0. So is a sequence without an answer, which
does not count in M. Nothing here carries a gradient.
"""

import jax
import jax.numpy as jnp

from arl import levels, ranges
from arl.kernels import advantages


def tsallis_loss(log_likelihood: jax.Array, *, q: ranges.Fraction) -> jax.Array:
  """(1 - P^(1 - q)) / (1 - q) of log P; -log P for q = 1. Of any shape."""
  if q == 1:
    return -log_likelihood
  return -jnp.expm1((1 - q) * log_likelihood) / (1 - q)


def _amplified(old_logp, mask, seq, group, answer, q):
  """w * mean(w)^-q of a sequence, and where it is known."""
  spoken = mask & answer
  once = levels.last(seq, spoken)
  log_w = levels.total(old_logp, seq, spoken)
  log_sum = log_w - levels.log_softmax(log_w, group, once)
  number = levels.count(group, once, log_w.dtype)
  log_mean = log_sum - jnp.log(jnp.maximum(number, 1))
  answered = mask & (levels.count(seq, spoken, log_w.dtype) > 0)
  known = answered & (log_mean > jnp.log(jnp.finfo(log_w.dtype).tiny))
  return jnp.exp(jnp.where(known, log_w - q * log_mean, 0)), known


def garl(
  old_logp: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  answer: jax.Array,
  *,
  q: ranges.Fraction = 0.75,
) -> jax.Array:
  """On the sample w - mean of the others' w, on the answer w; times mean(w)^-q.

  GARL (arXiv:2604.25907): the leave-one-out policy gradient of the likelihood,
  amplified. A group of one sample has no others: its baseline is 0.
  """
  old_logp = jax.lax.stop_gradient(old_logp)
  amplified, known = _amplified(old_logp, mask, seq, group, answer, q)
  once = levels.last(seq, known)
  rewards = jnp.where(once, amplified, 0)
  compared = advantages.leave_one_out(rewards, known, seq, group)
  alone = levels.count(group, once, amplified.dtype) == 1
  credit = jnp.where(answer | alone, amplified, compared)
  return jnp.where(known, credit, 0)


def paft(
  old_logp: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  group: levels.Level,
  answer: jax.Array,
  *,
  q: ranges.Fraction = 0.75,
) -> jax.Array:
  """M * p * mean(w)^(1 - q) on sample and answer, p = w / sum(w).

  PAFT (arXiv:2604.25907): imitation of samples that lead to the answer,
  attenuated. The paper draws M samples with probabilities p; this is the
  expectation over the draw, which is GARL without its baseline.
  """
  old_logp = jax.lax.stop_gradient(old_logp)
  amplified, known = _amplified(old_logp, mask, seq, group, answer, q)
  return jnp.where(known, amplified, 0)
