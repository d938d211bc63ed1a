"""What RL adds in each world: from a demonstrator who fails to an agent.

  python -m experiments.studies.worlds [--quick] [--workdir=DIR]

A small model imitates the noisy demonstrator of each environment of
experiments/worlds.py, and is then trained by DAPO on what it earns itself.
Prints a JSON object a line and rewrites experiments/results/worlds.md and
worlds.png. With --finished it tells of each world the seeds that are there.
"""

import pathlib
from collections.abc import Mapping

from arl.report import curves
from experiments import worlds
from experiments.studies import runs, summary

HEADER = (
  'world', 'function', 'seeds', 'warm start', 'sampled', 'greedy', 'gain',
  'seconds',
)  # fmt: skip


def warm_start(
  root: pathlib.Path, env: str, seed: int, quick: bool
) -> runs.Run:
  """The supervised run of a world and a seed."""
  return runs.Run(
    'launch.sft',
    f'experiments/world_sft.py:env={env}' + ',quick' * quick,
    root / f'{env}_sft_seed{seed}',
    (f'--config.seed={seed}',),
  )


def trained(root: pathlib.Path, env: str, seed: int, quick: bool) -> runs.Run:
  """The run of a world from the warm start of a seed."""
  model = warm_start(root, env, seed, quick).workdir / 'final'
  return runs.Run(
    'launch.train',
    f'experiments/world.py:env={env},model={model}' + ',quick' * quick,
    root / f'{env}_seed{seed}',
    (f'--config.seed={seed}',),
  )


def main(argv: list[str]) -> None:
  del argv
  root, quick, seeds = runs.root() / 'worlds', runs.quick(), runs.seeds()
  runs.make(
    [warm_start(root, e, seed, quick) for seed in seeds for e in worlds.WORLDS]
  )
  table = {
    env: [trained(root, env, seed, quick) for seed in seeds]
    for env in worlds.WORLDS
  }
  runs.make([run for column in zip(*table.values()) for run in column])
  there = {
    env: {s: run for s, run in zip(seeds, row) if runs.finished(run)}
    for env, row in table.items()
  }
  body = [tell(env, row) for env, row in there.items() if row]
  if quick:
    return
  runs.write_table(runs.RESULTS / 'worlds.md', HEADER, body)
  curves.compare(
    {env: [*map(runs.rows, row.values())] for env, row in there.items() if row},
    'train/success',
    runs.RESULTS / 'worlds.png',
  )
  summary.write()


def tell(env: str, row: Mapping[int, runs.Run]) -> list[str]:
  """Prints what a world's runs reached, by seed; the cells of its row."""
  results, seeds = [runs.result(run) for run in row.values()], tuple(row)
  cells = [env, worlds.WORLDS[env]['env']['name'], str(len(seeds))]
  for when, how in (
    ('before', 'sampled'), ('after', 'sampled'), ('after', 'greedy'),
  ):  # fmt: skip
    value, interval = runs.mean(runs.over_seeds(results, when, how))
    name = f'worlds/{env}/{when}_{how}'
    runs.line(name, value, 'success rate', '', seeds, interval)
    cells.append(runs.percent(value, interval))
  gains = [
    after - before
    for before, after in zip(
      runs.over_seeds(results, 'before', 'sampled'),
      runs.over_seeds(results, 'after', 'sampled'),
    )
  ]
  value, interval = runs.mean(gains)
  name = f'worlds/{env}/gain'
  runs.line(name, value, 'success rate', '> 0', seeds, interval)
  seconds, interval = runs.mean([r['wall_seconds'] for r in results])
  runs.line(f'worlds/{env}/wall', seconds, 's', '', seeds, interval)
  return [*cells, f'{value:+.3f}', f'{seconds:.0f}']


if __name__ == '__main__':
  runs.start(main)
