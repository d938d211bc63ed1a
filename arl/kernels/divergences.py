"""Sampled estimators of KL(policy || reference), a token.

Kernels read `logp` and `ref_logp` [B, T] and give a column [B, T]. Writing
x = logp - ref_logp for a token sampled from the policy, each has the value
below; what its *gradient* estimates is another matter (John Schulman,
"Approximating KL divergence", 2020; enumerated in the tests):

  kernel  value            expected gradient, on policy
  k1      x                0: no use as a loss, good as a penalty in the reward
  k2      x^2 / 2          that of KL(policy || reference), exactly
  k3      exp(-x) - 1 + x  that of KL(reference || policy)
"""

import jax
import jax.numpy as jnp

_LARGEST = 20.0
_ROUNDING = 1e-5  # a log-probability may be so much above 0


def k1(logp: jax.Array, ref_logp: jax.Array) -> jax.Array:
  """The log-ratio: unbiased, high variance, no gradient in expectation."""
  return logp - ref_logp


def k2(logp: jax.Array, ref_logp: jax.Array) -> jax.Array:
  """Half the squared log-ratio: biased value, exact gradient on policy."""
  return jnp.square(logp - ref_logp) / 2


def k3(logp: jax.Array, ref_logp: jax.Array) -> jax.Array:
  """Unbiased, never negative, low variance (GRPO, arXiv:2402.03300, eq. 4).

  The log-ratio's size is limited to 20 so that the result is finite.
  """
  x = jnp.clip(logp - ref_logp, -_LARGEST, _LARGEST)
  return jnp.expm1(-x) + x


def binary_kl(logp: jax.Array, rollout_logp: jax.Array) -> jax.Array:
  """KL from the behavior to the policy, over {the token, all others}.

  At most the KL over the whole vocabulary, and exact for the given token: no
  estimate (DPPO, arXiv:2602.04879).
  """
  mu = jnp.exp(rollout_logp)
  rest, old_rest = (_ROUNDING - jnp.expm1(x) for x in (logp, rollout_logp))
  return mu * (rollout_logp - logp) + (1 - mu) * jnp.log(old_rest / rest)
