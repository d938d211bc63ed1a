"""Worked examples of corrections for stale rollouts, divergences, entropy."""

import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import worked_runs as w

from arl.kernels import divergences, ratios
from arl.methods import binding, terms
from arl.models import heads
from arl.train import knobs

# log rho in the place of the policy's log-ratio.
BEHAVIOR = {'logp': 'old_logp', 'old_logp': 'rollout_logp'}


def _pooled(kernel) -> w.Row:
  """exp of the pooled log rho of a sequence."""
  return w.of(np.ma.exp, w.kernel(binding.on(kernel, **BEHAVIOR)))


CORRECTIONS: w.Table = {
  'corr.rho': w.factor('offpolicy.decoupled_ppo'),
  'corr.tis_w_C2': w.factor('offpolicy.tis'),
  'corr.tis_loss': w.loss('offpolicy.tis', base=w.PPO),
  'corr.mis_w': (
    w.factor('offpolicy.mis'), w.factor('offpolicy.icepop', high=2.0),
    w.factor('offpolicy.glm5_reasoning'),
  ),
  'corr.mis_loss': (
    w.loss('offpolicy.mis', base=w.PPO),
    w.loss('offpolicy.icepop', base=w.PPO, high=2.0),
  ),
  'corr.geo': _pooled(ratios.sequence),
  'corr.seqprod': w.factor('offpolicy.tis_sequence', high=1e9),
  'tis.seq_w': w.factor('offpolicy.tis_sequence'),
  'decoupled.loss': w.loss('offpolicy.decoupled_ppo', base=w.PPO),
  'seed2is.w': w.factor('offpolicy.two_level'),
  'opsm.mean_kl': w.of(np.ma.negative, w.log_ratio('sequence.gspo')),
}  # fmt: skip


def _band(name: str) -> w.Row:
  """The weight of a token of a recipe: its gradient is -f A / 9."""
  return w.of(
    lambda gradient, advantage: np.ma.divide(-9 * gradient, advantage),
    w.grad(name), w.credit(name),
  )  # fmt: skip


DIRECT: w.Table = {
  'dis.r': (w.ratio('offpolicy.dis'), w.ratio('offpolicy.anchored')),
  'dis.f': (_band('offpolicy.dis'), _band('offpolicy.glm5_agentic')),
  'dis.loss': (w.loss('offpolicy.dis'), w.loss('offpolicy.glm5_agentic')),
  'dis.grad': (w.grad('offpolicy.dis'), w.grad('offpolicy.glm5_agentic')),
}


def _scaled(logp, rollout_logp, rollout_entropy):
  """S, which ESTR compares with tau: written out, as no kernel gives it."""
  return jnp.square(logp - rollout_logp) / (rollout_entropy + 0.01)


ENTROPY_SCALED: w.Table = {
  'estr.S': w.kernel(_scaled),
  'estr.keep_tau.1': w.factor('offpolicy.estr', tau=0.1),
  'estr.loss_tau.1': w.loss('offpolicy.estr', base=w.PPO, tau=0.1),
}


def _kl(kernel) -> w.Part:
  return terms.kl(1.0, kernel)


DIVERGENCES: w.Table = {
  'kl.k1': w.term('kl', _kl(divergences.k1)),
  'kl.abs': w.term('kl', _kl(divergences.absolute)),
  'kl.k2': w.term('kl', _kl(divergences.k2)),
  'kl.k3': w.term('kl', _kl(divergences.k3)),
  'kl.k3plus_value': w.term('kl', _kl(divergences.k3_plus)),
  'kl.v32': w.term('kl', _kl(divergences.k3_unbiased)),
  'kl.grad_k1': w.grad(_kl(divergences.k1)),
  'kl.grad_k2': (
    w.grad(_kl(divergences.k2)),
    w.grad('terms.adaptive_kl', lambda: w.fixture(kl_coef=jnp.asarray(1.0))),
  ),
  'kl.grad_k3': w.grad(_kl(divergences.k3)),
  'kl.grad_k3plus': w.grad(_kl(divergences.k3_plus)),
  'kl.grad_v32': w.grad(_kl(divergences.k3_unbiased)),
}

# Three actions. The example does not say whose logits; these follow from its
# exact gradient and from that of k3, which is pi - ref.
POLICY, REFERENCE = (0.3, -0.2, 0.5), (0.0, 0.1, 0.2)


def _exact():
  """The gradient of KL(policy || reference) in the logits."""

  def kl(logits):
    logp = jax.nn.log_softmax(logits)
    gap = logp - jax.nn.log_softmax(jnp.asarray(REFERENCE))
    return jnp.sum(jnp.exp(logp) * gap)

  return jax.grad(kl)(jnp.asarray(POLICY))


def _expected(kernel, **columns) -> w.Row:
  """The mean, over actions of the policy, of the gradient of an estimator."""

  def row():
    old_logp = jax.nn.log_softmax(jnp.asarray(POLICY))
    shown = {'ref_logp': jax.nn.log_softmax(jnp.asarray(REFERENCE))}
    if 'old_logp' in binding.read_by(kernel):
      shown['old_logp'] = old_logp

    def estimates(logits):
      return kernel(logp=jax.nn.log_softmax(logits), **shown)

    return jnp.exp(old_logp) @ jax.jacobian(estimates)(jnp.asarray(POLICY))

  return row


ENUMERATED: w.Table = {
  'kl.exact_grad': _exact,
  'kl.exp_grad_k1': _expected(divergences.k1),
  'kl.exp_grad_k2': _expected(divergences.k2),
  'kl.exp_grad_k3': _expected(divergences.k3),
  'kl.exp_grad_v32': _expected(divergences.k3_unbiased),
}


def _entropy():
  """Of the chances 0.7, 0.2 and 0.1, by the head that all models share."""
  model: Any = types.SimpleNamespace(logits=lambda params, states: states)
  states = jnp.log(jnp.asarray([[[0.7, 0.2, 0.1]] * 2], jnp.float32))
  made = heads.columns(model, {}, states, jnp.zeros((1, 2), int), {'entropy'})
  return made['entropy'][0, 1]


OTHERS: w.Table = {
  'ent.probs_.7.2.1': _entropy,
  'kl.adaptive_mult': lambda: np.float64(
    knobs.adaptive_kl().update(1.0, {'train/ref_kl': 0.15}, 256)
  ),
  'ent.masked_mean': w.of(np.negative, w.term('entropy', terms.entropy(1.0))),
}

TABLE = {
  **CORRECTIONS, **DIRECT, **ENTROPY_SCALED, **DIVERGENCES, **ENUMERATED,
  **OTHERS,
}  # fmt: skip
