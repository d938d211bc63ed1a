r"""Whether one prompt can be learnt: python -m launch.overfit --config=FILE.

A run whose parts are right learns a single prompt by heart, so this is the
first thing to try where nothing is learnt. It trains the config as it is, but
for one task alone, an update a batch, and at most 50 updates:

  python -m launch.overfit --config=experiments/quickstart.py:model=DIR \
    --workdir=runs/overfit

A model that never solves the task cannot learn it: choose another one by
--task, or a higher --samples. The exit status is 0 where success has reached
0.95 in a batch, 1 where it has not.
"""

import pathlib
import sys
from collections.abc import Sequence

import ml_collections
from absl import app, flags

from arl.evaluate import checklist
from arl.train import loop, metrics
from launch import start

LEARNT = 0.95


def one_prompt(
  config: ml_collections.ConfigDict, task: int, samples: int | None
) -> ml_collections.ConfigDict:
  """The config with one task, and an update a batch."""
  made = ml_collections.ConfigDict(config.to_dict())
  made.steps = checklist.OVERFIT
  made.env = {'name': 'alone.make', 'task': task, 'env': made.env}
  made.prompts.update(size=1, batch=1, rounds=1)
  if samples:
    made.prompts.samples = samples
  made.updates.update(per_batch=1, epochs=1)
  made.eval.update(every=made.steps, tasks=1, final_tasks=1)
  made.checkpoint.every = made.steps
  return made


def learnt(rows: Sequence[dict[str, float]]) -> dict[str, float] | None:
  """The first metrics in which the prompt is learnt; None where it is not."""
  return next((r for r in rows if r['train/success'] >= LEARNT), None)


def overfit(config: ml_collections.ConfigDict, folder: pathlib.Path) -> int:
  """Trains a config of `one_prompt` and says how it went; the exit status."""
  loop.train(config, str(folder))
  rows = metrics.read(folder)
  found, first = learnt(rows), rows[0]['train/success']
  if found is None:
    best = max(row['train/success'] for row in rows)
    print(
      f'not learnt: success {first:.3f} at first, {best:.3f} at best in'
      f' {rows[-1]["train/updates"]:.0f} updates; go through the checklist:'
      f' python -m launch.doctor --workdir={folder}'
    )
    return 1
  print(
    f'learnt: success {first:.3f} at first, {found["train/success"]:.3f} after'
    f' {found["train/updates"]:.0f} updates'
  )
  return 0


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  given = flags.FLAGS
  config = one_prompt(given.config, given.task, given.samples)
  sys.exit(overfit(config, pathlib.Path(given.workdir)))


def define() -> None:
  """Defines the flags."""
  start.define_config()
  flags.DEFINE_string('workdir', None, 'Where the run is written.')
  flags.DEFINE_integer(
    'samples', None, 'Episodes an update; those of a group if not given.', 2
  )
  flags.DEFINE_integer('task', 0, 'Index of the training task.', 0)


if __name__ == '__main__':
  start.run(main, define, required=('config', 'workdir'))
