"""The stack of agentic surveys against GRPO, at equal tokens.

  python -m experiments.studies.full_stack [--quick] [--workdir=DIR]

Both from the same warm starts on key-door chains, as many batches each. Success
is that of held-out tasks while it trains, read where as many tokens were
sampled: what branches share is sampled once. Prints a JSON object a line and
rewrites experiments/results/full_stack.md and full_stack.png.
"""

import pathlib

import numpy as np

from arl.report import curves
from arl.train import metrics
from experiments.studies import runs, summary, worlds

WORLD = 'keydoor'
CONFIGS = {
  'GRPO': f'world.py:env={WORLD},method=grpo',
  'full stack': f'full_stack.py:env={WORLD}',
}
HEADER = ('method', 'sampled tokens', 'success at equal tokens', 'at the end')
POINTS = 8


def started(seed: int, quick: bool) -> runs.Run:
  """The warm start of a seed, which the study of worlds has as well."""
  return worlds.warm_start(runs.root() / 'worlds', WORLD, seed, quick)


def trained(root: pathlib.Path, name: str, seed: int, quick: bool) -> runs.Run:
  """The run of a config from the warm start of a seed."""
  model = started(seed, quick).workdir / 'final'
  return runs.Run(
    'launch.train',
    f'experiments/{CONFIGS[name]},model={model}' + ',quick' * quick,
    root / f'{name.replace(" ", "_")}_seed{seed}',
    (f'--config.seed={seed}',) + ('--config.eval.every=5',) * (not quick),
  )


def curve(run: runs.Run) -> tuple[np.ndarray, np.ndarray]:
  """(sampled tokens [n], held-out success [n]) of a run, from its beginning."""
  tokens, success = [0.0], [runs.result(run)['before']['sampled']['success']]
  spent = 0.0
  for row in runs.rows(run):
    spent += metrics.sampled_tokens(row)
    if 'eval/sampled' in row:
      tokens.append(spent)
      success.append(row['eval/sampled'])
  return np.array(tokens), np.array(success)


def main(argv: list[str]) -> None:
  del argv
  root, quick, seeds = runs.root() / 'full_stack', runs.quick(), runs.seeds()
  runs.make([started(seed, quick) for seed in seeds])
  table = {
    name: [trained(root, name, seed, quick) for seed in seeds]
    for name in CONFIGS
  }
  runs.make([run for column in zip(*table.values()) for run in column])
  found = {name: [curve(run) for run in row] for name, row in table.items()}
  # What all of the runs have sampled.
  most = min(tokens[-1] for each in found.values() for tokens, _ in each)
  body = [tell(name, table[name], found[name], most) for name in CONFIGS]
  if quick:
    return
  runs.write_table(runs.RESULTS / 'full_stack.md', HEADER, body, seeds)
  grid = np.linspace(0, most, POINTS + 1).round()
  curves.panels(
    {
      f'{WORLD}: success on held-out tasks': {
        name: [
          [
            {'step': x, 'success': y}
            for x, y in zip(grid, np.interp(grid, *each).tolist())
          ]
          for each in row
        ]
        for name, row in found.items()
      }
    },
    'success',
    runs.RESULTS / 'full_stack.png',
    across='sampled tokens',
  )
  summary.write()


def tell(name: str, row, found, most: float) -> list[str]:
  """Prints what a config reached; its row of the table."""
  line = f'full_stack/{name.replace(" ", "_")}'
  equal = [float(np.interp(most, *each)) for each in found]
  final = runs.over_seeds([runs.result(run) for run in row], 'after', 'sampled')
  tokens = [float(spent[-1]) for spent, _ in found]
  value, interval = runs.mean(tokens)
  runs.line(f'{line}/tokens', value, 'tokens', '', runs.seeds(), interval)
  return [
    name,
    f'{value / 1000:.0f} k',
    runs.cell(f'{line}/at_{most:.0f}', equal, 'success rate'),
    runs.cell(f'{line}/final', final, 'success rate'),
  ]


if __name__ == '__main__':
  runs.start(main)
