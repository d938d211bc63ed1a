"""What config.model.lora asks for: adapters that are learnt, and nothing else.

The rest of the policy stays as it was loaded. Engines are given the sum of
both, and so is the folder of the policy; the adapters alone lie beside it in
the layout of the PEFT library.
"""

import json
import pathlib
import re
from typing import Any

import jax
import ml_collections
import numpy as np
from safetensors import numpy as safetensors_numpy

from arl.models import functional, hf, lora

FOLDER = 'adapter'
_OF_ADAPTERS = 0x10FA  # beside the seed: what randomness is for


def check(config: ml_collections.ConfigDict) -> None:
  """Refuses what cannot be learnt by adapters.

  Raises:
    ValueError: with the fix.
  """
  block, updates = config.model.lora, config.updates
  if block.rank < 0 or not block.alpha > 0:
    raise ValueError(
      f'config.model.lora has rank {block.rank} and alpha {block.alpha}; set'
      ' rank to 0 for no adapters, or to 1 or more, and alpha above 0.'
    )
  if not block.rank:
    return
  try:
    re.compile(block.targets)
  except re.error as error:
    raise ValueError(
      f'config.model.lora.targets: {block.targets!r} is no regular expression:'
      f' {error}.'
    ) from error
  if updates.qk_clip:
    raise ValueError(
      'config.updates.qk_clip scales projections that adapters leave as they'
      ' are; set it to 0, or config.model.lora.rank.'
    )
  if updates.frozen:
    raise ValueError(
      f'config.updates.frozen is {updates.frozen!r}, but with adapters all else'
      " is frozen; set it to '', and choose by config.model.lora.targets."
    )


def add(
  params: functional.Params, config: ml_collections.ConfigDict
) -> tuple[functional.Params, str]:
  """The params that a run learns from, and the pattern of those that stay.

  Args:
    params: of the policy, with its critic where there is one; a critic on a
      trunk of its own gets adapters there as well.
    config: of the run.

  Raises:
    ValueError: targets that the model does not have, or a rank too large.
  """
  block = config.model.lora
  if not block.rank:
    return params, config.updates.frozen
  key = jax.random.fold_in(jax.random.key(config.seed), _OF_ADAPTERS)
  kept = block.to_dict()
  targets = rf'(?:value_head/trunk/)?(?:{kept.pop("targets")})'
  return lora.add(params, key, targets=targets, **kept), lora.FROZEN


def save(folder: pathlib.Path, params: functional.Params) -> None:
  """Writes the adapters of a policy, if it has any, to a new folder.

  In the layout of PEFT: `adapter_config.json`, and `adapter_model.safetensors`
  with lora_A [rank, in] and lora_B [out, rank] of each projection.

  Args:
    folder: must not exist yet.
    params: of the policy, without a critic.
  """
  _, found = lora.apart(params)
  if not found:
    return
  tensors, modules = {}, []
  for path, adapter in found.items():
    module = hf.module_name(path)
    modules.append(module)
    for name, part in (('lora_A', 'down'), ('lora_B', 'up')):
      turned = np.ascontiguousarray(np.asarray(adapter[part]).T)
      tensors[f'base_model.model.{module}.{name}.weight'] = turned
  folder.mkdir()
  safetensors_numpy.save_file(tensors, folder / 'adapter_model.safetensors')
  text = json.dumps(_described(adapter, sorted(modules)), indent=2)
  (folder / 'adapter_config.json').write_text(text + '\n', encoding='utf-8')


def _described(adapter: dict[str, Any], modules: list[str]) -> dict[str, Any]:
  rank = adapter['down'].shape[1]
  return {
    'peft_type': 'LORA',
    'task_type': 'CAUSAL_LM',
    'base_model_name_or_path': None,
    'r': rank,
    'lora_alpha': float(adapter['scale']) * rank,
    'lora_dropout': 0.0,
    'bias': 'none',
    'fan_in_fan_out': False,
    'inference_mode': True,
    'target_modules': modules,
  }
