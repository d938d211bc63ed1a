"""Sampling with tunix's own sampler, the default of its trainers.

It speaks text: ids are written with spaces between. Unless it is given a seed
it draws the same noise in each call, so it is given one.
"""

import functools
import itertools
import json
import pathlib
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from tunix.generate import sampler
from tunix.models.llama3 import model as llama
from tunix.models.llama3 import params

from benchmarks import cases

PACKAGES = ('google-tunix', 'jax', 'jaxlib', 'flax', 'numpy')
_apply_rope = llama.apply_rope


class _Numbers:
  """A tokenizer whose texts are ids; what sampling never gives ends them.

  Nor does it give what pads them: a padding that is sampled is not read again.
  """

  def encode(self, text, **_):
    return [int(word) for word in text.split()]

  def decode(self, ids, **_):
    return ' '.join(map(str, ids))

  def pad_id(self):
    return -2

  def bos_id(self):
    return 0  # none is put in front

  def eos_id(self):
    return -1


@functools.lru_cache(maxsize=1)
def loaded(folder: str):
  told = json.loads((pathlib.Path(folder) / 'config.json').read_text())
  rope = told.get('rope_parameters') or told
  config = llama.ModelConfig(
    num_layers=told['num_hidden_layers'],
    vocab_size=told['vocab_size'],
    embed_dim=told['hidden_size'],
    hidden_dim=told['intermediate_size'],
    num_heads=told['num_attention_heads'],
    head_dim=told.get('head_dim')
    or told['hidden_size'] // told['num_attention_heads'],
    num_kv_heads=told['num_key_value_heads'],
    rope_theta=rope['rope_theta'],
    norm_eps=told['rms_norm_eps'],
    weight_tying=told['tie_word_embeddings'],
  )
  # Its attention leaves the base that its config holds at a default.
  llama.apply_rope = functools.partial(
    _apply_rope, rope_theta=config.rope_theta
  )
  mesh = jax.make_mesh(
    (1, 1), ('fsdp', 'tp'), axis_types=(jax.sharding.AxisType.Auto,) * 2
  )
  model = params.create_model_from_safe_tensors(
    folder, config, mesh, jnp.float32
  )
  return model, config


def _greedy(given):
  return _work(given, 1, 'tokens', temperature=0.0)


def _sample(given):
  group = int(given['group'])
  return _work(given, group, 'count', temperature=1.0, top_p=1.0)


def _work(given, group, told, **settings):
  """Each prompt is handed in once for each sample, as its trainers do."""
  model, config = loaded(str(given['folder']))
  texts = [' '.join(map(str, row)) for row in given['prompts']]
  width, lengths = given['prompts'].shape[1], given['lengths']
  made = sampler.Sampler(
    model,
    _Numbers(),
    sampler.CacheConfig(
      cache_size=width + int(lengths.max()),
      num_layers=config.num_layers,
      num_kv_heads=config.num_kv_heads,
      head_dim=config.head_dim,
    ),
  )
  seeds = itertools.count()

  def call():
    return made(
      [text for text in texts for _ in range(group)],
      max_generation_steps=int(lengths.max()),
      max_prompt_length=width,
      eos_tokens=[-1],
      return_logprobs=True,
      seed=next(seeds),
      **settings,
    )

  def outputs(output):
    if told == 'tokens':
      return {'tokens': np.stack([np.asarray(x) for x in output.tokens])}
    return {'count': lengths.sum()}

  return cases.Work(call, outputs)


def rows() -> dict[str, Callable]:
  """The same names as in `benchmarks.sides.arl_sampler`."""
  return {'greedy': _greedy, 'sample': _sample}
