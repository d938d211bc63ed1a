"""Updates of TRL: forward, loss and backward of its trainer, AdamW of PyTorch.

`GRPOTrainer._compute_loss` and the pass over the model that it calls run on an
object with the attributes that they read, without the trainer's loop.
"""

import functools
import inspect
from collections.abc import Callable

import numpy as np
import torch
import transformers
from trl import GRPOTrainer
from trl.trainer import utils

from benchmarks import cases, updates
from benchmarks.sides import trl

PACKAGES = trl.PACKAGES


@functools.cache
def _loaded(folder: str):
  model = transformers.AutoModelForCausalLM.from_pretrained(
    folder, dtype=torch.float32
  )
  utils.add_fused_lm_head(model, outputs=('log_probs', 'entropy'))
  return model.train()


def _trainer(model, given):
  shape = given['noise'].shape
  trainer = trl.trainer(torch.zeros(shape), {'loss_type': 'grpo'})
  # Without the decorator that reports how long it took.
  read = inspect.unwrap(GRPOTrainer._get_per_token_logps_and_entropies)
  trainer.model, trainer.temperature = model, 1.0
  trainer._get_per_token_logps_and_entropies = functools.partial(read, trainer)
  return trainer


def _update(given):
  model = _loaded(str(given['folder']))
  prompt = int(given['prompt'])
  tokens = torch.from_numpy(given['tokens']).long()
  trainer = _trainer(model, given)
  mask = torch.ones(given['noise'].shape)
  inputs = {
    'prompt_ids': tokens[:, :prompt],
    'prompt_mask': torch.ones(len(tokens), prompt),
    'completion_ids': tokens[:, prompt:],
    'completion_mask': mask,
    'advantages': torch.from_numpy(given['advantage']),
    'old_per_token_logps': torch.from_numpy(given['old_logp']),
    'num_items_in_batch': mask.sum(),
  }
  optimizer = torch.optim.AdamW(
    model.parameters(),
    lr=updates.RATE,
    betas=(updates.B1, updates.B2),
    eps=updates.EPS,
    weight_decay=0.0,
  )

  def call():
    optimizer.zero_grad()
    loss = GRPOTrainer._compute_loss(trainer, model, inputs)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), updates.MAX_NORM)
    optimizer.step()
    return loss.detach(), norm

  def outputs(result):
    return {k: np.asarray(x) for k, x in zip(('loss', 'norm'), result)}

  return cases.Work(call, outputs)


def rows() -> dict[str, Callable]:
  """The plain update."""
  return {'none': _update}
