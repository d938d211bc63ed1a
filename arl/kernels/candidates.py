"""Divergences over K candidate tokens at each position: losses of distillation.

Kernels read log-probs [B, T, K] of the same tokens, likeliest first, under the
policy and under a teacher, and give a column [B, T] that is differentiated in
the policy. `top_logp` and `teacher_top_logp` are of the teacher's likeliest
tokens; rebind them to `own_logp` and `teacher_own_logp` for the policy's. With
K tokens of many the distribution is closed either by a tail, one more outcome
of all the rest, or by renormalizing over the K. With all V tokens each is
exact. `arl.models.teachers` has the same over the vocabulary.
"""

import math

import jax
import jax.numpy as jnp

from arl import ranges
from arl.kernels import distillation, logps, surrogates

_MOST = -1e-7  # nats that the candidates have together, at most


def with_tail(logp: jax.Array, k: int) -> jax.Array:
  """The first k log-probs and that of all other tokens: [B, T, k + 1]."""
  first = logps.finite(logp[..., :k])
  mass = jnp.minimum(jax.nn.logsumexp(first, axis=-1, keepdims=True), _MOST)
  return jnp.concatenate([first, jnp.log(-jnp.expm1(mass))], axis=-1)


def renormalized(logp: jax.Array, k: int) -> jax.Array:
  """The first k log-probs, as if there were no other tokens."""
  return jax.nn.log_softmax(logps.finite(logp[..., :k]), axis=-1)


def _kl(a, b):
  return jnp.sum(jnp.exp(a) * (a - b), axis=-1)


def reverse_kl(
  top_logp: jax.Array, teacher_top_logp: jax.Array, *, k: ranges.Count = 16
) -> jax.Array:
  """KL(policy || teacher) with a tail: a lower bound of the whole."""
  return _kl(with_tail(top_logp, k), with_tail(teacher_top_logp, k))


def reverse_kl_renormalized(
  top_logp: jax.Array, teacher_top_logp: jax.Array, *, k: ranges.Count = 16
) -> jax.Array:
  """KL(policy || teacher) within the candidates.

  How much probability they have together does not count.
  """
  return _kl(renormalized(top_logp, k), renormalized(teacher_top_logp, k))


def forward_kl(
  top_logp: jax.Array, teacher_top_logp: jax.Array, *, k: ranges.Count = 16
) -> jax.Array:
  """KL(teacher || policy) with a tail: a lower bound of the whole."""
  return _kl(with_tail(teacher_top_logp, k), with_tail(top_logp, k))


def forward_kl_renormalized(
  top_logp: jax.Array, teacher_top_logp: jax.Array, *, k: ranges.Count = 16
) -> jax.Array:
  """KL(teacher || policy) within the candidates (EOPD, arXiv:2603.07079)."""
  return _kl(renormalized(teacher_top_logp, k), renormalized(top_logp, k))


def forward_kl_partial(
  top_logp: jax.Array, teacher_top_logp: jax.Array, *, k: ranges.Count = 64
) -> jax.Array:
  """The candidates' summands of KL(teacher || policy), nothing in their place.

  TrOPD, arXiv:2606.01249. The value may be negative; what pulls is the
  cross-entropy of the candidates.
  """
  theirs, own = (logps.finite(x[..., :k]) for x in (teacher_top_logp, top_logp))
  return _kl(theirs, own)


def jsd(
  top_logp: jax.Array,
  teacher_top_logp: jax.Array,
  *,
  beta: ranges.Fraction = 0.5,
  k: ranges.Count = 64,
) -> jax.Array:
  """beta KL(teacher || M) + (1 - beta) KL(policy || M), with a tail.

  GKD (arXiv:2306.13649, official code (TRL) read); M = beta * teacher + (1 -
  beta) * policy. By convention 0 is the forward and 1 the reverse KL, where
  this would be 0; towards both ends it vanishes, so those are no limits.
  """
  own, theirs = with_tail(top_logp, k), with_tail(teacher_top_logp, k)
  if beta == 0:
    return _kl(theirs, own)
  if beta == 1:
    return _kl(own, theirs)
  mixed = jnp.logaddexp(math.log(beta) + theirs, math.log1p(-beta) + own)
  return beta * _kl(theirs, mixed) + (1 - beta) * _kl(own, mixed)


def where_unsure(
  divergence: jax.Array,
  teacher_entropy: jax.Array,
  *,
  tau: ranges.NonNegative = 0.8,
) -> jax.Array:
  """The divergence where the teacher's entropy is above tau nats, else 0."""
  return jnp.where(teacher_entropy > tau, divergence, 0)


def rewarded(
  own_logp: jax.Array,
  old_own_logp: jax.Array,
  teacher_own_logp: jax.Array,
  *,
  k: ranges.Count = 16,
  low: ranges.NonNegative = 0.2,
  high: ranges.Positive = 0.2,
) -> jax.Array:
  """Minus the sum over candidates of PPO's clipped objective.

  "Rethinking OPD" (arXiv:2604.13016, official code read): each candidate is an
  action whose advantage, without a gradient, is log(teacher / old policy) times
  its share of the old policy among the candidates.
  """
  advantage = candidate_reward(old_own_logp, teacher_own_logp, k=k)
  log_ratio = distillation.gap(own_logp, old_own_logp)[..., :k]
  objective = surrogates.clip(log_ratio, advantage, low=low, high=high)
  return -jnp.sum(objective, axis=-1)


def candidate_reward(
  old_own_logp: jax.Array, teacher_own_logp: jax.Array, *, k: ranges.Count
) -> jax.Array:
  """The advantages [B, T, k] of `rewarded`."""
  share = jnp.exp(renormalized(old_own_logp, k))
  gap = distillation.gap(teacher_own_logp, old_own_logp)[..., :k]
  return jax.lax.stop_gradient(share * gap)


def debated(confidence: jax.Array, *, tau: ranges.Positive = 1.0) -> jax.Array:
  """Weights of teachers [..., M] from their confidences in [0, 100].

  OPAD in MAD-OPD (arXiv:2605.01347, official code read): softmax(c / 100 /
  tau).
  """
  return jax.nn.softmax(confidence / 100 / tau, axis=-1)
