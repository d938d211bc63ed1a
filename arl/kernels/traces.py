"""Returns from tokens that another policy sampled: V-trace and Retrace.

Scans like those of `returns`: over the policy's own tokens, within a sequence,
with value 0 after its last token. `rollout_logp` is the behavior, `old_logp`
the policy whose returns are wanted, r their ratio at a token. Nothing here
carries a gradient.
"""

import jax
import jax.numpy as jnp

from arl import levels, ranges
from arl.kernels import scans, surrogates


def _ratio(old_logp, rollout_logp, mask):
  return surrogates.ratio(jnp.where(mask, old_logp - rollout_logp, 0))


def vtrace(
  rewards: jax.Array,
  old_value: jax.Array,
  old_logp: jax.Array,
  rollout_logp: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  gamma: ranges.Fraction,
  lam: ranges.Fraction = 1.0,
  delta_cap: ranges.Positive = 1.0,
  trace_cap: ranges.Positive = 1.0,
) -> jax.Array:
  """The critic's target vs of V-trace (IMPALA, arXiv:1802.01561, eq. 1).

  vs_t = V_t + D_t, D_t = min(r_t, delta_cap) (reward_t + gamma V_{t+1} - V_t)
  + gamma lam min(r_t, trace_cap) D_{t+1}. On policy it is `lambda_return`.
  `delta_cap` says whose value it is, `trace_cap` how far back it looks.
  """

  def step(carry, x):
    (later, next_value), (reward, value, weight, trace) = carry, x
    delta = weight * (reward + gamma * next_value - value)
    return delta + gamma * trace * later, value

  ratio = _ratio(old_logp, rollout_logp, mask)
  weight = jnp.minimum(ratio, delta_cap)
  trace = lam * jnp.minimum(ratio, trace_cap)
  excess = scans.back(
    step, mask, seq, rewards, old_value, weight, trace, carried=2
  )
  return jax.lax.stop_gradient(jnp.where(mask, old_value + excess, 0))


def vtrace_advantage(
  rewards: jax.Array,
  old_value: jax.Array,
  returns: jax.Array,
  old_logp: jax.Array,
  rollout_logp: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  gamma: ranges.Fraction,
  cap: ranges.Positive = 1.0,
) -> jax.Array:
  """min(r_t, cap) * (reward_t + gamma vs_{t+1} - V_t), vs being `returns`.

  The policy's side of V-trace (arXiv:1802.01561, section 4.2), for
  `surrogates.reinforce`: the ratio is already in it. With lam < 1 rlax puts a
  mixture of vs and V in the place of vs_{t+1}; the paper does not.
  """

  def step(carry, x):
    (_, next_target), (reward, value, weight, target) = carry, x
    return weight * (reward + gamma * next_target - value), target

  weight = jnp.minimum(_ratio(old_logp, rollout_logp, mask), cap)
  return scans.back(
    step, mask, seq, rewards, old_value, weight, returns, carried=2
  )


def retrace(
  rewards: jax.Array,
  q: jax.Array,
  expected_q: jax.Array,
  old_logp: jax.Array,
  rollout_logp: jax.Array,
  mask: jax.Array,
  seq: levels.Level,
  *,
  gamma: ranges.Fraction,
  lam: ranges.Fraction = 1.0,
) -> jax.Array:
  """The target of an action value, Retrace (arXiv:1606.02647).

  G_t = reward_t + gamma (E_{t+1} + lam min(1, r_{t+1}) (G_{t+1} - Q_{t+1})).
  `q` is the value Q of the token that was sampled, `expected_q` the policy's
  mean E of the values of all tokens there; both are 0 after the last token.
  """

  def step(carry, x):
    (_, next_expected, correction), (reward, value, expected, trace) = carry, x
    target = reward + gamma * (next_expected + correction)
    return target, expected, trace * (target - value)

  trace = lam * jnp.minimum(_ratio(old_logp, rollout_logp, mask), 1)
  return scans.back(step, mask, seq, rewards, q, expected_q, trace, carried=3)
