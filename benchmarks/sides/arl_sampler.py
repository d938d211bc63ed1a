"""Sampling with arl's embedded engine, from a Hugging Face folder."""

import functools
import itertools
from collections.abc import Callable

import numpy as np

from arl.models import hf
from arl.rollout import engine, local
from benchmarks import cases

PACKAGES = ('arl', 'jax', 'jaxlib', 'numpy')


@functools.lru_cache(maxsize=1)
def _loaded(folder: str):
  return hf.load(folder, dtype='float32')


def _greedy(given):
  return _work(given, 1, engine.Sampling(temperature=0), 'tokens')


def _sample(given):
  return _work(given, int(given['group']), engine.Sampling(), 'count')


def _work(given, group, sampling, told):
  """A call forgets what was cached, as after an update, and is a new step."""
  loaded = _loaded(str(given['folder']))
  prompts = [tuple(row.tolist()) for row in given['prompts']]
  rows = len(prompts) * group
  lengths = given['lengths'][:rows]
  made = local.LocalEngine(
    loaded.model,
    loaded.params,
    slots=rows,
    context=len(prompts[0]) + int(lengths.max()),
    seed=cases.SEED,
  )
  steps = itertools.count()

  def call():
    step = next(steps)
    made.set_params(loaded.params, step)
    return made.generate(
      [
        engine.Request(
          prompts[i // group], int(n), (step, i // group, i % group)
        )
        for i, n in enumerate(lengths)
      ],
      sampling,
    )

  def outputs(samples):
    if told == 'tokens':
      return {'tokens': np.stack([sample.tokens for sample in samples])}
    return {'count': np.array(sum(len(s.tokens) for s in samples))}

  return cases.Work(call, outputs)


def rows() -> dict[str, Callable]:
  """`greedy`, to compare with other libraries, and `sample`, to measure."""
  return {'greedy': _greedy, 'sample': _sample}
