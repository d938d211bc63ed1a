"""The quickstart in full: what six methods reach from the same warm starts.

  python -m experiments.studies.quickstart [--quick] [--workdir=DIR]

Trains a warm start a seed, and from it 40 batches by each method, where results
are missing. Prints a JSON object a line and rewrites
experiments/results/quickstart.md and quickstart.png.
"""

import pathlib

from arl.report import curves
from experiments import recipes
from experiments.studies import runs, summary

STUDIED = ('dapo', 'grpo', 'ppo', 'rloo', 'gspo', 'cispo')


def warm_start(folder: pathlib.Path, seed: int, quick: bool) -> runs.Run:
  """The supervised run of a seed."""
  return runs.Run(
    'launch.sft',
    f'experiments/quickstart_sft.py:{"quick" if quick else ""}',
    folder / f'sft_seed{seed}',
    (f'--config.seed={seed}',),
  )


def trained(
  folder: pathlib.Path, method: str, seed: int, quick: bool
) -> runs.Run:
  """The run of a method from the warm start of a seed."""
  model = warm_start(folder, seed, quick).workdir / 'final'
  argument = f'model={model},method={method}' + (',quick' if quick else '')
  return runs.Run(
    'launch.train',
    f'experiments/quickstart.py:{argument}',
    folder / f'{method}_seed{seed}',
    (f'--config.seed={seed}',),
  )


def main(argv: list[str]) -> None:
  del argv
  root, quick, seeds = runs.root(), runs.quick(), runs.seeds()
  runs.make([warm_start(root, seed, quick) for seed in seeds])
  table = {
    method: [trained(root, method, seed, quick) for seed in seeds]
    for method in STUDIED
  }
  runs.make([run for column in zip(*table.values()) for run in column])
  body = []
  for method, row in table.items():
    results = [runs.result(run) for run in row]
    cells = [method, recipes.METHODS[method]['name']]
    for when, how, aim in (
      ('before', 'sampled', '<= 0.5'),
      ('after', 'sampled', '>= 0.9'),
      ('after', 'greedy', '>= 0.9'),
    ):
      value, interval = runs.mean(runs.over_seeds(results, when, how))
      name = f'quickstart/{method}/{when}_{how}'
      runs.line(name, value, 'success rate', aim, seeds, interval)
      cells.append(runs.percent(value, interval))
    seconds, interval = runs.mean([r['wall_seconds'] for r in results])
    name = f'quickstart/{method}/wall'
    runs.line(name, seconds, 'seconds', '<= 480', seeds, interval)
    body.append([*cells, f'{seconds:.0f}'])
  if quick:
    return
  runs.write_table(
    runs.RESULTS / 'quickstart.md',
    ('method', 'function', 'warm start', 'sampled', 'greedy', 'seconds'),
    body,
  )
  curves.compare(
    {method: [runs.rows(run) for run in row] for method, row in table.items()},
    'train/success',
    runs.RESULTS / 'quickstart.png',
  )
  summary.write()


if __name__ == '__main__':
  runs.start(main)
