"""Averages models.

  python -m launch.merge --config=FILE --models=A,B --workdir=DIR

Writes the mean of the parameters of model folders of one shape and one
tokenizer to the folder `final` in the workdir, and what it reaches in the
environment of the config to results.json, beside what the first of them does.
The config's own model is not used.
"""

import json
import pathlib
import time
from collections.abc import Sequence
from typing import Any

import jax
import ml_collections
from absl import app, flags

from arl.models import hf, tokenizers
from arl.train import build, evaluation, export, outcome, settings
from launch import start


def average(
  folders: Sequence[str], weights: Sequence[float], dtype: str
) -> hf.Loaded:
  """The models of the folders as one: the weighted mean of their parameters.

  Args:
    folders: of models.
    weights: as many, not negative, of which one is above 0; they are scaled to
      add up to 1.
    dtype: of the computation.

  Raises:
    ValueError: fewer than two folders, weights that do not fit them, or models
      of different shapes or tokenizers.
  """
  fit = len(weights) == len(folders) and min(weights, default=-1) >= 0
  if len(folders) < 2 or not fit or not sum(weights) > 0:
    raise ValueError(
      f'merge: models are {[*folders]} and weights {[*weights]}; give two or'
      ' more models, and a weight from 0 on for each.'
    )
  loaded = [hf.load(f, dtype=dtype, cast='float32') for f in folders]
  spelled = [tokenizers.load(folder).get_vocab() for folder in folders]
  for folder, one, vocab in zip(folders[1:], loaded[1:], spelled[1:]):
    if one.sizes != loaded[0].sizes or vocab != spelled[0]:
      what = 'a tokenizer' if one.sizes == loaded[0].sizes else 'a shape'
      raise ValueError(
        f'merge: {folder} and {folders[0]} do not have {what} in common;'
        ' average models that were trained from one.'
      )
  shares = [weight / sum(weights) for weight in weights]
  params = jax.tree.map(
    lambda *each: sum(share * x for share, x in zip(shares, each)),
    *(one.params for one in loaded),
  )
  return loaded[0]._replace(params=params)


def merge(
  config: ml_collections.ConfigDict,
  folders: Sequence[str],
  weights: Sequence[float],
  workdir: str,
) -> dict[str, Any]:
  """Writes the average and what it reaches; gives what results.json holds."""
  began, folder = time.monotonic(), pathlib.Path(workdir)
  settings.check(config, settings.TRAIN)
  made = average(folders, weights, config.model.dtype)
  config = ml_collections.ConfigDict(config.to_dict())
  config.model.update(path=folders[0], size='')
  world = build.world(config)
  tasks = evaluation.held_out(world, config.eval.tasks, config.eval.final_tasks)

  def reached():
    return evaluation.evaluate(
      world, tasks, config.rollout.temperature, (evaluation.FINAL,)
    )

  before = reached()
  world.engine.set_params(made.params, 1)
  result = {
    'models': [*folders],
    'weights': [*weights],
    'before': before,
    'after': reached(),
    'wall_seconds': round(time.monotonic() - began, 1),
    'seed': config.seed,
    'config_hash': settings.digest(config),
    'versions': outcome.versions(),
    'device': jax.devices()[0].device_kind,
  }
  folder.mkdir(parents=True, exist_ok=True)
  export.save(folder / 'final', made.params, made.sizes, world.tokenizer)
  text = json.dumps(result, indent=2, allow_nan=False) + '\n'
  (folder / 'results.json').write_text(text, encoding='utf-8')
  return result


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  folders = flags.FLAGS.models
  weights = [float(w) for w in flags.FLAGS.weights] or [1.0] * len(folders)
  made = merge(flags.FLAGS.config, folders, weights, flags.FLAGS.workdir)
  for when in ('before', 'after'):
    print(f'{when}: {made[when]["sampled"]["success"]:.3f}')


def define() -> None:
  """Defines the flags."""
  start.define_config()
  flags.DEFINE_list('models', None, 'The folders of the models.')
  flags.DEFINE_list('weights', [], 'Of each model; all alike if not given.')
  flags.DEFINE_string('workdir', None, 'Where the average is written.')


if __name__ == '__main__':
  start.run(main, define, required=('config', 'models', 'workdir'))
