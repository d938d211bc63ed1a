"""The sampler of a run: embedded, or servers that are running already.

The embedded one answers batches of requests, or, where rollouts run ahead, each
request by itself, and takes new weights while requests run.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections

from arl import names
from arl.models import hf, tokenizers, transformer
from arl.rollout import continuous, local, sglang
from arl.rollout import engine as engine_lib
from arl.train import processes, sync

# What a probe of weights is made of at most: ids of the tokenizer, each once.
_PROBE = 32


def make(
  config: ml_collections.ConfigDict, loaded: hf.Loaded, tokenizer: Any
) -> engine_lib.Engine:
  """The sampler that a config describes, holding the loaded weights.

  The embedded one has all of them on one device of this process, whatever mesh
  they are trained on; they come there one tensor at a time.

  Raises:
    ValueError: a setting that cannot work.
    RuntimeError: a server that cannot be used, or did not take the weights.
  """
  loaded = loaded._replace(params=processes.here(loaded.params))
  if config.engine.make:
    own = names.resolve(config.engine.make, 'arl.train')
    return own(config, loaded, tokenizer)
  if config.engine.urls:
    return _served(config, loaded, tokenizer)
  model = loaded.model
  dtype, cache = config.engine.dtype, config.engine.cache
  if dtype or cache:
    made = transformer.make(
      loaded.sizes, dtype or config.model.dtype, cache=cache
    )
    model = tokenizers.known(tokenizer, made)
  if config.rollout.ahead:
    return InFlight(
      model,
      loaded.params,
      slots=config.engine.slots,
      context=config.rollout.context,
      seed=config.seed,
      mode=config.engine.pause,
    )
  return local.LocalEngine(
    model,
    loaded.params,
    slots=config.engine.slots,
    context=config.rollout.context,
    seed=config.seed,
    read=functools.partial(tokenizer.decode, skip_special_tokens=False),
  )


def close(engine: Any) -> None:
  """Ends the threads of an engine that has some."""
  if hasattr(engine, 'close'):
    engine.close()


class InFlight(continuous.ContinuousEngine):
  """The continuous engine of a run whose requests go on over new weights."""

  def __init__(self, model: Any, params: Any, *, mode: str, **settings: Any):
    """Makes an engine; `mode` says what becomes of what runs, see `pause`."""
    super().__init__(model, jax.tree.map(jnp.copy, params), **settings)
    self._mode = mode

  def set_params(self, params: Any, version: int) -> None:
    """Takes a copy of new weights at once: updates donate their own."""
    copy = jax.tree.map(jnp.copy, params)
    self.pause(self._mode)
    try:
      super().set_params(copy, version)
    finally:
      self.resume()


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
    publish = functools.partial(publish, folder=processes.own(block.folder))
  made = sglang.connect(
    processes.servers(block.urls),
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
