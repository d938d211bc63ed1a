"""The models of a run and their tokenizer."""

import inspect
from typing import Any

import jax
import ml_collections

from arl import names, types
from arl.models import hf, sizes, tokenizers, transformer


def _fresh_size(name: str, vocab: int) -> sizes.Sizes:
  make = names.resolve(f'sizes.{name}', 'arl.models')
  if not inspect.signature(make).parameters:
    raise ValueError(
      f'config.model.size is {name!r}, a published model with a vocabulary of'
      ' its own; give its folder as config.model.path.'
    )
  return make(vocab)


def load_model(
  block: ml_collections.ConfigDict, seed: int
) -> tuple[hf.Loaded, Any]:
  """A model and its tokenizer, which must fit each other.

  From the folder `path`, or a fresh one of `size` over characters.
  """
  if bool(block.path) == bool(block.size):
    raise ValueError(
      f'model: path={block.path!r} and size={block.size!r}; give the folder of'
      ' a model, or the size of a fresh one, and leave the other empty.'
    )
  if block.path:
    loaded = hf.load(
      block.path, dtype=block.dtype, cast='float32', remat=block.remat
    )
    tokenizer = tokenizers.load(block.path)
  else:
    tokenizer = tokenizers.characters()
    size = _fresh_size(block.size, len(tokenizer))
    model = transformer.make(size, block.dtype, block.remat)
    loaded = hf.Loaded(model, model.init(jax.random.key(seed)), size)
  tokenizers.check_vocab(tokenizer, loaded.model.vocab)
  return loaded, tokenizer


def further(
  config: ml_collections.ConfigDict, made: types.Method, loaded: hf.Loaded
) -> dict[str, hf.Loaded]:
  """The models beside the policy, by the column of their log-prob.

  Raises:
    ValueError: a teacher that spells in other tokens.
  """
  found = {}
  if 'ref_logp' in made.needs:
    found['ref_logp'] = loaded
  if 'teacher_logp' in made.needs:
    found['teacher_logp'] = teacher = hf.load(
      config.model.teacher, dtype=config.model.dtype, cast='float32'
    )
    if teacher.sizes.vocab != loaded.sizes.vocab:
      raise ValueError(
        f'the teacher in {config.model.teacher} knows {teacher.sizes.vocab} ids'
        f' and the policy {loaded.sizes.vocab}; a teacher must share the'
        " policy's tokenizer."
      )
  return found
