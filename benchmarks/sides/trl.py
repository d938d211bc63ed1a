"""TRL's objectives: `GRPOTrainer._compute_loss` without a model.

TRL has no free function. The method is called on an object with the attributes
that it reads, which gives the log-probs where the trainer would run the model.
"""

import collections
import contextlib
import types
from collections.abc import Callable

import torch
from trl import GRPOTrainer

from benchmarks import cases

PACKAGES = ('trl', 'torch', 'transformers', 'numpy')


class _OneProcess:
  """An accelerator with nobody to talk to."""

  num_processes = 1
  sync_gradients = True

  def autocast(self):
    return contextlib.nullcontext()

  def gather(self, x):
    return x

  gather_for_metrics = gather

  def reduce(self, x, reduction):
    del reduction
    return x


def trainer(logp: torch.Tensor, settings: dict) -> types.SimpleNamespace:
  """What `_compute_loss` reads of a trainer; each entropy is 1."""
  forward = (logp, torch.ones_like(logp), None)
  made = types.SimpleNamespace(
    _get_per_token_logps_and_entropies=lambda *args, **kwargs: forward,
    _metrics={'train': collections.defaultdict(list)},
    _entropy_bonus_enabled=False,
    accelerator=_OneProcess(),
    args=types.SimpleNamespace(
      delta=None, use_bias_correction_kl=False, steps_per_generation=1
    ),
    aux_loss_enabled=False,
    beta=0.0,
    current_gradient_accumulation_steps=1,
    epsilon_low=cases.CLIP,
    epsilon_high=cases.CLIP,
    importance_sampling_level='token',
    loss_type='grpo',
    max_completion_length=logp.shape[1],
    model=types.SimpleNamespace(training=True),
    off_policy_mask_threshold=None,
    top_entropy_quantile=1.0,
    use_vllm=False,
  )
  vars(made).update(settings)
  return made


def _loss(**settings):
  def make(arrays):
    given = {key: torch.from_numpy(x) for key, x in arrays.items()}
    logp = given['logp'].clone().requires_grad_(True)
    rows = len(logp)
    stub = trainer(logp, settings)
    inputs = {
      'prompt_ids': torch.zeros(rows, 1, dtype=torch.long),
      'prompt_mask': torch.ones(rows, 1),
      'completion_ids': torch.zeros(logp.shape, dtype=torch.long),
      'completion_mask': given['mask'],
      'advantages': given['advantage'],
      'old_per_token_logps': given['old_logp'],
      'ref_per_token_logps': given['ref_logp'],
      'num_items_in_batch': given['mask'].sum(),
    }

    def call():
      logp.grad = None
      loss = GRPOTrainer._compute_loss(stub, None, inputs)
      loss.backward()
      return loss.detach(), logp.grad

    def outputs(result):
      return dict(zip(('loss', 'gradient'), (x.numpy() for x in result)))

    return cases.Work(call, outputs)

  return make


def rows() -> dict[str, Callable]:
  """The same names as in `benchmarks.sides.arl`; it has no free advantages."""
  torch.set_num_threads(1)
  return {
    'ppo_clip': _loss(loss_type='dapo'),
    'grpo_k3': _loss(beta=cases.KL_COEF),
    'gspo': _loss(
      importance_sampling_level='sequence',
      epsilon_low=cases.GSPO_LOW,
      epsilon_high=cases.GSPO_HIGH,
    ),
    'cispo': _loss(loss_type='cispo', epsilon_high=1 + cases.CISPO_HIGH),
  }
