"""verl's objectives and advantages, called as its trainer calls them."""

from collections.abc import Callable

import numpy as np
import torch
from verl.trainer.ppo import core_algos
from verl.workers.config import ActorConfig

from benchmarks import cases

PACKAGES = ('verl', 'torch', 'numpy')
_DUAL_CLIP = 10.0  # cannot be switched off; no ratio comes near


def _config(low: float, high: float) -> ActorConfig:
  return ActorConfig(
    strategy='fsdp',
    rollout_n=1,
    ppo_micro_batch_size_per_gpu=1,
    clip_ratio=low,
    clip_ratio_low=low,
    clip_ratio_high=high,
    clip_ratio_c=_DUAL_CLIP,
  )


def _loss(name, aggregation, low, high, kl_coef=0.0):
  def make(arrays):
    given = {key: torch.from_numpy(x) for key, x in arrays.items()}
    logp = given['logp'].clone().requires_grad_(True)
    mask = given['mask']
    advantages = (given['advantage'][:, None] * mask).contiguous()
    objective = core_algos.get_policy_loss_fn(name)
    config = _config(low, high)

    def call():
      logp.grad = None
      loss, metrics = objective(
        old_log_prob=given['old_logp'],
        log_prob=logp,
        advantages=advantages,
        response_mask=mask,
        loss_agg_mode=aggregation,
        config=config,
      )
      if kl_coef:
        kl = core_algos.kl_penalty(logp, given['ref_logp'], 'low_var_kl')
        kl_loss = core_algos.agg_loss(kl, mask, aggregation)
        metrics['kl_loss'] = kl_loss.detach().item()
        loss = loss + kl_coef * kl_loss
      loss.backward()
      return loss.detach(), logp.grad, metrics

    return cases.Work(call, _outputs('loss', 'gradient'))

  return make


def _outputs(*names):
  return lambda result: dict(zip(names, (x.numpy() for x in result)))


def _gae(arrays):
  names = ('rewards', 'value', 'mask')
  rewards, value, mask = (torch.from_numpy(arrays[name]) for name in names)

  def call():
    return core_algos.compute_gae_advantage_return(
      rewards, value, mask, cases.GAMMA, cases.LAM
    )

  def outputs(result):
    return {
      name: (x * mask).numpy()
      for name, x in zip(('advantage', 'returns'), result)
    }

  return cases.Work(call, outputs)


def _group_advantage(arrays):
  rewards, mask = (torch.from_numpy(arrays[n]) for n in ('rewards', 'mask'))
  groups = np.arange(len(rewards)) // cases.GROUP

  def call():
    advantages, _ = core_algos.compute_grpo_outcome_advantage(
      rewards, mask, groups, epsilon=cases.DEVIATION_EPS
    )
    return (advantages,)

  return cases.Work(call, _outputs('advantage'))


def rows() -> dict[str, Callable]:
  """The same names as in `benchmarks.sides.arl`."""
  torch.set_num_threads(1)
  clip, means = cases.CLIP, 'seq-mean-token-mean'
  return {
    'ppo_clip': _loss('vanilla', 'token-mean', clip, clip),
    'grpo_k3': _loss('vanilla', means, clip, clip, cases.KL_COEF),
    'gspo': _loss('gspo', means, cases.GSPO_LOW, cases.GSPO_HIGH),
    'cispo': _loss('cispo', 'token-mean', 1.0, cases.CISPO_HIGH),
    'gae': _gae,
    'group_advantage': _group_advantage,
  }
