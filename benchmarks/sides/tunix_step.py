"""Updates of tunix: the loss and the train step of its trainer, jitted."""

import types
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from tunix.rl import algo_core, common

from benchmarks import cases, updates
from benchmarks.sides import tunix, tunix_sampler

PACKAGES = tunix.PACKAGES


def _example(given):
  prompt, tokens = int(given['prompt']), jnp.asarray(given['tokens'])
  return common.TrainExample(
    prompt_ids=tokens[:, :prompt],
    prompt_mask=jnp.ones((len(tokens), prompt)),
    completion_ids=tokens[:, prompt:],
    completion_mask=jnp.ones(given['noise'].shape),
    advantages=jnp.asarray(given['advantage']),
    ref_per_token_logps=None,
    old_per_token_logps=jnp.asarray(given['old_logp']),
  )


def _update(given):
  model, _ = tunix_sampler.loaded(str(given['folder']))
  config = types.SimpleNamespace(**tunix.SETTINGS)
  tx = optax.chain(
    optax.clip_by_global_norm(updates.MAX_NORM),
    optax.adamw(
      updates.RATE, updates.B1, updates.B2, updates.EPS, weight_decay=0.0
    ),
  )
  optimizer = nnx.Optimizer(model, tx, wrt=nnx.Param)
  example = _example(given)

  def loss(model, example):
    return algo_core.grpo_loss_fn(model, example, config, 0, 1)

  # As tunix.sft.peft_trainer.PeftTrainer has it.
  @nnx.jit(donate_argnames=('optimizer',))
  def update(model, optimizer, example):
    out, grads = nnx.value_and_grad(loss, has_aux=True)(model, example)
    norm = optax.global_norm(grads)
    optimizer.update(model, grads)
    return *out, norm

  def call():
    made = update(model, optimizer, example)
    return jax.block_until_ready(made)

  def outputs(result):
    found, _, norm = result
    return {'loss': np.asarray(found), 'norm': np.asarray(norm)}

  return cases.Work(call, outputs)


def rows() -> dict[str, Callable]:
  """The plain update."""
  return {'none': _update}
