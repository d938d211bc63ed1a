"""Negative controls: what breaks when a part is taken out on purpose.

  python -m experiments.studies.controls [--quick] [--workdir=DIR]

The quickstart's method with the observation mask switched off (the policy is
also trained on what the environment said), and with rewards shuffled within
each rollout batch. Prints a JSON object a line and rewrites
experiments/results/controls.md and controls.png. Uses the runs of
experiments.studies.quickstart where they exist.
"""

import pathlib

from arl.report import curves
from experiments.studies import quickstart, runs, summary

CONTROLS = {
  'dapo': '',
  'unmasked': 'experiments.studies.sabotage.unmasked',
  'shuffled': 'experiments.studies.sabotage.shuffled',
}


def _run(root: pathlib.Path, control: str, seed: int, quick: bool) -> runs.Run:
  base = quickstart.trained(root, 'dapo', seed, quick)
  if not CONTROLS[control]:
    return base
  return base._replace(
    workdir=root / f'{control}_seed{seed}',
    overrides=(
      *base.overrides,
      f'--config.prompts.select={CONTROLS[control]}',
    ),
  )


def main(argv: list[str]) -> None:
  del argv
  quick = runs.quick()
  root, seeds = runs.root(), runs.seeds()
  runs.make([quickstart.warm_start(root, seed, quick) for seed in seeds])
  table = {
    control: [_run(root, control, seed, quick) for seed in seeds]
    for control in CONTROLS
  }
  runs.make([run for row in table.values() for run in row])
  body = []
  for control, row in table.items():
    results = [runs.result(run) for run in row]
    value, interval = runs.mean(runs.over_seeds(results, 'after', 'sampled'))
    aim = '>= 0.9' if control == 'dapo' else 'below dapo'
    name = f'controls/{control}/after_sampled'
    runs.line(name, value, 'success rate', aim, seeds, interval)
    body.append([control, runs.percent(value, interval)])
  if quick:
    return
  runs.write_table(
    runs.RESULTS / 'controls.md', ('run', 'success, sampled'), body
  )
  curves.compare(
    {name: [runs.rows(run) for run in row] for name, row in table.items()},
    'train/success',
    runs.RESULTS / 'controls.png',
  )
  summary.write()


if __name__ == '__main__':
  runs.start(main)
