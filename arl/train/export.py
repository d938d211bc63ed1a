"""Policies as Hugging Face folders, tokenizer included."""

import json
import os
import pathlib
import shutil
from typing import Any

import jax

from arl.models import functional, hf, sizes, tokenizers


def policy_params(params: functional.Params) -> functional.Params:
  """The parameters of the language model alone, without a value head."""
  return {k: v for k, v in params.items() if k != functional.VALUE_HEAD}


def save(
  folder: str | os.PathLike,
  params: functional.Params,
  size: sizes.Sizes,
  tokenizer: Any,
) -> None:
  """Writes the folder, replacing an earlier one only when complete.

  Its generation_config.json names the id that ends a turn, so that a server
  that loads the folder stops where training did.
  """
  folder = pathlib.Path(folder)
  draft = folder.with_name(folder.name + '.new')
  shutil.rmtree(draft, ignore_errors=True)
  hf.save(draft, jax.device_get(policy_params(params)), size)
  tokenizers.save(tokenizer, draft)
  ends = json.dumps({'eos_token_id': tokenizer.eos_token_id}, indent=2)
  (draft / 'generation_config.json').write_text(ends + '\n', encoding='utf-8')
  shutil.rmtree(folder, ignore_errors=True)
  draft.rename(folder)
