"""The sampler of a run: embedded, or servers that are running already."""

import functools
from typing import Any

import ml_collections

from arl import names
from arl.models import hf, transformer
from arl.rollout import engine as engine_lib
from arl.rollout import local, sglang
from arl.train import sync

# What a probe of weights is made of at most: ids of the tokenizer, each once.
_PROBE = 32


def make(
  config: ml_collections.ConfigDict, loaded: hf.Loaded, tokenizer: Any
) -> engine_lib.Engine:
  """The sampler that a config describes, holding the loaded weights.

  Raises:
    ValueError: a setting that cannot work.
    RuntimeError: a server that cannot be used, or did not take the weights.
  """
  if config.engine.urls:
    return _served(config, loaded, tokenizer)
  model = loaded.model
  if config.engine.dtype:
    model = transformer.make(loaded.sizes, config.engine.dtype)
  return local.LocalEngine(
    model,
    loaded.params,
    slots=config.engine.slots,
    context=config.rollout.context,
    seed=config.seed,
    read=functools.partial(tokenizer.decode, skip_special_tokens=False),
  )


def _served(
  config: ml_collections.ConfigDict, loaded: hf.Loaded, tokenizer: Any
) -> sglang.SglangEngine:
  block, model = config.engine, loaded.model
  ids = sorted(set(tokenizer.get_vocab().values()))[:_PROBE]
  ids = ids[: config.rollout.context - 1]
  publish: Any = functools.partial(
    names.resolve(block.sync, 'arl.train'),
    size=loaded.sizes,
    probe=sync.probe(model, ids, block.tolerance),
    mode=block.pause,
  )
  if block.sync == 'sync.disk':
    publish = functools.partial(publish, folder=block.folder)
  made = sglang.connect(
    block.urls.split(','),
    vocab=model.vocab,
    context=config.rollout.context,
    seed=config.seed,
    experts=model.experts,
    names={'default': 0},
    publish=publish,
    limit=block.slots,
  )
  made.set_params(loaded.params, 0)
  return made
