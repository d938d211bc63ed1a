"""tunix's objectives and advantages, jitted, with the metrics they return.

Its losses run the model themselves. The function in which they do is replaced
by one that gives the log-probs, which are the only parameter of a module. They
also report the entropy, which needs logits: each is 1 here.
"""

import types
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from tunix.rl import algo_core, common

from benchmarks import cases

PACKAGES = ('google-tunix', 'jax', 'jaxlib', 'flax', 'numpy')
SETTINGS = {
  'beta': 0.0,
  'entropy_coef': 0.0,
  'epsilon': cases.CLIP,
  'epsilon_c': None,
  'epsilon_high': cases.CLIP,
  'epsilon_low': cases.CLIP,
  'kl_clamp_value': None,
  'kl_coef': 0.0,
  'kl_loss_mode': 'low_var_kl',
  'loss_agg_mode': 'sequence-mean-token-mean',
  'loss_algo': 'grpo',
  'temperature': 1.0,
}


class _Model(nnx.Module):
  def __init__(self, logp):
    self.logp = nnx.Param(logp)


def _forward(graph, state, *args, **kwargs):
  del args, kwargs
  logp = nnx.merge(graph, state).logp[...]
  return logp, logp


def _example(arrays: dict[str, np.ndarray], with_kl: bool):
  rows = len(arrays['logp'])
  advantages = arrays['advantage'][:, None] * arrays['mask']
  return common.TrainExample(
    prompt_ids=jnp.zeros((rows, 1), jnp.int32),
    prompt_mask=jnp.ones((rows, 1)),
    completion_ids=jnp.zeros(arrays['logp'].shape, jnp.int32),
    completion_mask=jnp.asarray(arrays['mask']),
    advantages=jnp.asarray(advantages),
    ref_per_token_logps=jnp.asarray(arrays['ref_logp']) if with_kl else None,
    old_per_token_logps=jnp.asarray(arrays['old_logp']),
  )


def _loss(objective, **settings):
  config = types.SimpleNamespace(**{**SETTINGS, **settings})

  @jax.jit
  def update(logp, example):
    loss = lambda logp: objective(_Model(logp), example, config, 0, 1)
    return jax.value_and_grad(loss, has_aux=True)(logp)

  def outputs(result):
    (loss, _), gradient = result
    return {'loss': np.asarray(loss), 'gradient': np.asarray(gradient)}

  def make(arrays):
    example = _example(arrays, with_kl=config.beta > 0)
    logp = jnp.asarray(arrays['logp'])
    return cases.Work(
      lambda: jax.block_until_ready(update(logp, example)), outputs
    )

  return make


def _gae(arrays):
  names = ('rewards', 'value', 'mask')
  rewards, value, mask = (jnp.asarray(arrays[name]) for name in names)

  def call():
    return jax.block_until_ready(
      algo_core.compute_gae_advantages(
        rewards, value, mask, cases.GAMMA, cases.LAM
      )
    )

  def outputs(result):
    return {
      name: np.asarray(x) * arrays['mask']
      for name, x in zip(('advantage', 'returns'), result)
    }

  return cases.Work(call, outputs)


def _group_advantage(arrays):
  """In numpy, as in its learner; sums to it and tokens from it are ours."""

  def call():
    score = arrays['rewards'].sum(axis=1)
    advantages = algo_core.compute_advantages(score, cases.GROUP)
    return advantages[:, None] * arrays['mask']

  return cases.Work(call, lambda result: {'advantage': result})


def rows() -> dict[str, Callable]:
  """The same names as in `benchmarks.sides.arl`; it has no CISPO."""
  common.compute_per_token_logps = _forward
  algo_core.compute_entropy_from_logits = jnp.ones_like
  return {
    'ppo_clip': _loss(algo_core.ppo_policy_loss_fn),
    'grpo_k3': _loss(algo_core.grpo_loss_fn, beta=cases.KL_COEF),
    'gspo': _loss(
      algo_core.grpo_loss_fn,
      loss_algo='gspo-token',
      epsilon=cases.GSPO_LOW,
      epsilon_high=cases.GSPO_HIGH,
    ),
    'gae': _gae,
    'group_advantage': _group_advantage,
  }
