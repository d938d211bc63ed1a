"""Policies as Hugging Face folders, tokenizer included, and their critics.

What a server of models does not know lies beside: the value head in a file of
its own, and a critic with a trunk of its own as another such folder, CRITIC,
within that of the policy.
"""

import json
import os
import pathlib
import shutil
from typing import Any

import jax.numpy as jnp
import numpy as np

from arl.models import critics, functional, hf, lora, sizes, tokenizers
from arl.train import adapters, processes

CRITIC = 'critic'
_HEAD = 'value_head.npz'


def policy_params(params: functional.Params) -> functional.Params:
  """The parameters of the language model alone, without a critic.

  What adapters have learnt is added to the projections beside them. Of several
  processes each has all of them, for its sampler.
  """
  return processes.here(lora.merged(critics.policy(params)))


def save(
  folder: str | os.PathLike,
  params: functional.Params,
  size: sizes.Sizes,
  tokenizer: Any,
) -> None:
  """Writes the folder, replacing an earlier one only when complete.

  Its generation_config.json names the id that ends a turn, so that a server
  that loads the folder stops where training did. A critic is kept beside, and
  so are adapters.
  """
  params = processes.here(params)
  if not processes.is_first():
    return
  folder = pathlib.Path(folder)
  draft = folder.with_name(folder.name + '.new')
  shutil.rmtree(draft, ignore_errors=True)
  hf.save(draft, policy_params(params), size)
  adapters.save(draft / adapters.FOLDER, critics.policy(params))
  tokenizers.save(tokenizer, draft)
  ends = json.dumps({'eos_token_id': tokenizer.eos_token_id}, indent=2)
  (draft / 'generation_config.json').write_text(ends + '\n', encoding='utf-8')
  head = params.get(functional.VALUE_HEAD)
  if head and critics.TRUNK in head:
    save(draft / CRITIC, critics.alone(params), size, tokenizer)
  elif head:
    np.savez(draft / _HEAD, **head)
  shutil.rmtree(folder, ignore_errors=True)
  draft.rename(folder)


def critic_folder(folder: str | os.PathLike) -> pathlib.Path:
  """The folder of a policy's critic: the policy's, or one in it.

  Raises:
    ValueError: it was exported without a value head.
  """
  folder = pathlib.Path(folder)
  found = folder / CRITIC if (folder / CRITIC).is_dir() else folder
  if not (found / _HEAD).is_file():
    raise ValueError(
      f'{folder} has no value head; give the folder that a run with a critic,'
      ' or of a reward model, has exported.'
    )
  return found


def load_head(folder: str | os.PathLike) -> dict[str, Any]:
  """The value head in the folder of a critic.

  Raises:
    ValueError: as of `critic_folder`.
  """
  with np.load(critic_folder(folder) / _HEAD) as file:
    return {name: jnp.asarray(file[name]) for name in ('weight', 'bias')}
