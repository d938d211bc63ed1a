"""Negative controls: what breaks when a part is taken out on purpose.

  python -m experiments.studies.controls [--quick] [--workdir=DIR]

The quickstart's method with the observation mask switched off (the policy is
also trained on what the environment said), and with rewards shuffled within
each rollout batch. Prints a JSON object a line and rewrites
experiments/results/controls.md and controls.png. Uses the runs of
experiments.studies.methods where they exist.
"""

import pathlib
import random

from absl import app

from arl import episode
from arl.prompts import select
from arl.report import curves
from experiments.studies import methods, runs, summary

CONTROLS = {
  'dapo': '',
  'unmasked': 'experiments.studies.controls.unmasked',
  'shuffled': 'experiments.studies.controls.shuffled',
}


def unmasked(groups: list[episode.Group]) -> list[episode.Group]:
  """A selection that puts what the environment said on the mask as well."""

  def expose(one):
    first = int(one.mask.argmax())  # the prompt stays off the mask
    mask = one.mask.copy()
    mask[first:] = True
    return one._replace(mask=mask)

  return [
    group._replace(episodes=[expose(e) for e in group.episodes])
    for group in select.varied(groups)
  ]


def shuffled(groups: list[episode.Group]) -> list[episode.Group]:
  """A selection whose episodes carry the rewards of others of the batch."""
  episodes = [e for group in groups for e in group.episodes]
  totals = [episode.total_reward(e) for e in episodes]
  random.Random(str(sum(len(e.tokens) for e in episodes))).shuffle(totals)
  given = iter(totals)

  def swap(one):
    rewards = one.rewards * 0
    rewards[one.mask.nonzero()[0][-1]] = next(given)
    return one._replace(rewards=rewards)

  return select.varied(
    [g._replace(episodes=[swap(e) for e in g.episodes]) for g in groups]
  )


def _run(root: pathlib.Path, control: str, seed: int, quick: bool) -> runs.Run:
  base = methods.trained(root, 'dapo', seed, quick)
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
  quick = methods.quick()
  root, seeds = methods.root(), methods.seeds()
  runs.make([methods.warm_start(root, seed, quick) for seed in seeds])
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
  app.run(main)
