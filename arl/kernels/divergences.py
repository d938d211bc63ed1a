"""Sampled estimators of KL(policy || reference), a token.

Kernels read `logp` and `ref_logp` [B, T] and give a column [B, T]. Writing
x = logp - ref_logp for a token sampled from the policy, each has the value
below; what its *gradient* estimates is another matter (John Schulman,
"Approximating KL divergence", 2020; enumerated in the tests):

  kernel       value               expected gradient, on policy
  k1           x                   0: no use as a loss, good as a penalty in
                                   the reward
  absolute     |x|                 that of the L1 distance, twice the total
                                   variation
  k2           x^2 / 2             that of KL(policy || reference), exactly
  k3           exp(-x) - 1 + x     that of KL(reference || policy)
  k3_cut       k3, at most 10      as k3 where it is not cut, 0 where it is
  k3_plus      k3                  that of k2: KL(policy || reference)
  k3_unbiased  exp(logp - old_logp)  that of KL(policy || reference), also when
               * k3                the tokens came from old_logp

`binary_kl` is no such estimator: it compares with the behavior.
"""

import math

import jax
import jax.numpy as jnp

_LARGEST = 20.0
_CUT = 10.0
_SMALL = 0.5
_SMALLEST = 1e-8


def k1(logp: jax.Array, ref_logp: jax.Array) -> jax.Array:
  """The log-ratio: unbiased, high variance, no gradient in expectation."""
  return logp - ref_logp


def absolute(logp: jax.Array, ref_logp: jax.Array) -> jax.Array:
  """The size of the log-ratio: at least the KL on average; its pull is even."""
  return jnp.abs(logp - ref_logp)


def k2(logp: jax.Array, ref_logp: jax.Array) -> jax.Array:
  """Half the squared log-ratio: biased value, exact gradient on policy."""
  return jnp.square(logp - ref_logp) / 2


def k3(logp: jax.Array, ref_logp: jax.Array) -> jax.Array:
  """Unbiased, never negative, low variance (GRPO, arXiv:2402.03300, eq. 4).

  The log-ratio's size is limited to 20 so that the result is finite.
  """
  largest = jnp.asarray(_LARGEST, logp.dtype)
  return _beyond_first(jax.lax.clamp(-largest, ref_logp - logp, largest))


@jax.custom_jvp
def _beyond_first(x):
  """exp(x) - 1 - x, to full precision also where x is small."""
  series = jnp.zeros_like(x)
  for n in reversed(range(2, _terms(x.dtype))):
    series = series * x + 1 / math.factorial(n)
  return jnp.where(jnp.abs(x) < _SMALL, series * x * x, jnp.exp(x) - 1 - x)


def _terms(dtype):
  """Up to which power of x < _SMALL the exponential series is needed."""
  n = 2
  while _SMALL ** (n - 2) / math.factorial(n) > jnp.finfo(dtype).eps / 4:
    n += 1
  return n


@_beyond_first.defjvp
def _beyond_first_jvp(primals, tangents):
  """Its derivative, exp(x) - 1, is x more than itself."""
  (x,), (dx,) = primals, tangents
  y = _beyond_first(x)
  return y, (x + y) * dx


def k3_cut(logp: jax.Array, ref_logp: jax.Array) -> jax.Array:
  """k3, at most 10, as a public trainer has it under 'low_var_kl'.

  A token far below the reference counts 10 and no longer pulls.
  """
  whole = k3(logp, ref_logp)
  return jnp.where(whole <= _CUT, whole, _CUT)


def k3_plus(logp: jax.Array, ref_logp: jax.Array) -> jax.Array:
  """k3 as a value, the gradient of k2: neither is biased on policy."""
  stop = jax.lax.stop_gradient
  pull = k2(logp, ref_logp)
  return stop(k3(logp, ref_logp)) + (pull - stop(pull))


def k3_unbiased(
  logp: jax.Array, ref_logp: jax.Array, old_logp: jax.Array
) -> jax.Array:
  """k3 weighted by the ratio, whose gradient counts (arXiv:2512.02556).

  DeepSeek-V3.2: the expectation over tokens from `old_logp` is the KL of the
  policy, and so is that of the gradient.
  """
  moved = jnp.clip(logp - old_logp, -_LARGEST, _LARGEST)
  return jnp.exp(moved) * k3(logp, ref_logp)


def binary_kl(logp: jax.Array, rollout_logp: jax.Array) -> jax.Array:
  """KL from the behavior to the policy, over {the token, all others}.

  No estimate but a bound: at most the KL over the whole vocabulary (DPPO,
  arXiv:2602.04879).
  """
  rest, old_rest = (
    jnp.maximum(-jnp.expm1(x), _SMALLEST) for x in (logp, rollout_logp)
  )
  of_token = jnp.exp(rollout_logp) * (rollout_logp - logp)
  return of_token + old_rest * jnp.log(old_rest / rest)
