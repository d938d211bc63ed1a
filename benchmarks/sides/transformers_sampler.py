"""Sampling with `generate` of transformers, which TRL's trainers call."""

import functools
from collections.abc import Callable

import torch
import transformers

from benchmarks import cases

PACKAGES = ('transformers', 'torch', 'numpy')


@functools.lru_cache(maxsize=1)
def _loaded(folder: str):
  model = transformers.AutoModelForCausalLM.from_pretrained(
    folder, dtype=torch.float32
  )
  # Nothing ends a sample before its length.
  model.generation_config = transformers.GenerationConfig(pad_token_id=0)
  return model.eval()


def _greedy(given):
  return _work(given, 'tokens', do_sample=False)


def _sample(given):
  return _work(
    given,
    'count',
    do_sample=True,
    temperature=1.0,
    top_k=0,
    top_p=1.0,
    num_return_sequences=int(given['group']),
  )


def _work(given, told, **settings):
  """Rows that want fewer tokens are computed to the end, as after their end."""
  model = _loaded(str(given['folder']))
  prompts = torch.from_numpy(given['prompts']).long()
  lengths = given['lengths']

  def call():
    with torch.inference_mode():
      return model.generate(
        prompts,
        attention_mask=torch.ones_like(prompts),
        max_new_tokens=int(lengths.max()),
        **settings,
      )

  def outputs(made):
    new = made[:, prompts.shape[1] :].numpy()
    return {'tokens': new} if told == 'tokens' else {'count': lengths.sum()}

  return cases.Work(call, outputs)


def rows() -> dict[str, Callable]:
  """The same names as in `benchmarks.sides.arl_sampler`."""
  return {'greedy': _greedy, 'sample': _sample}
