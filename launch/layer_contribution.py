"""What each block contributes: python -m launch.layer_contribution [--quick].

Trains the policy of experiments/quickstart.py from the same warm starts, once
with all its parameters and once for each block with those of the block alone
(2607.01232). With P the held-out success, sampled, the contribution of block l

  (P_l - P_before) / (P_all - P_before)

is the share of the whole gain that the block reaches alone: 1 is all of it.
Where training everything changes nothing, it is undefined.

Makes the runs that are missing in --workdir, prints a JSON object a line and
rewrites experiments/results/layer_contribution.md and .png; those of smoke runs
lie beside them. The runs of all parameters are shared with
experiments.studies.quickstart.
"""

import json
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from absl import app

from arl.report import bars
from experiments.studies import quickstart, runs, summary

METHOD = 'dapo'
ALL = 'all'


class Row(NamedTuple):
  """What was trained, and over seeds what became of it.

  Attributes:
    trained: 'all', or the block's number.
    success: held out and sampled, after training.
    interval: of the success; None for one seed.
    share: the contribution, a mean over the seeds where it is defined; None
      where it is for none.
    share_interval: of the share; None with less than two such seeds.
    seeds: where the share is defined.
  """

  trained: str
  success: float
  interval: list[float] | None
  share: float | None
  share_interval: list[float] | None
  seeds: tuple[int, ...]


def contribution(before: float, single: float, full: float) -> float | None:
  """The share of the gain of training everything; None where there is none.

  Args:
    before: success before training.
    single: after training one block.
    full: after training everything.
  """
  return (single - before) / (full - before) if full != before else None


def all_but(block: int) -> str:
  """The pattern for `updates.frozen` that lets one block move."""
  return rf'(?!layers/{block}/).*'


def blocks(folder: pathlib.Path) -> int:
  """How many blocks the model of a folder has."""
  text = (folder / 'config.json').read_text(encoding='utf-8')
  return json.loads(text)['num_hidden_layers']


def alone(root: pathlib.Path, block: int, seed: int, quick: bool) -> runs.Run:
  """The run that trains one block from the warm start of a seed."""
  base = quickstart.trained(root, METHOD, seed, quick)
  return base._replace(
    workdir=root / f'block{block}_seed{seed}',
    overrides=(
      *base.overrides,
      f'--config.updates.frozen={all_but(block)}',
    ),
  )


def row(
  trained: str,
  before: Sequence[float],
  single: Sequence[float],
  full: Sequence[float],
  seeds: Sequence[int],
) -> Row:
  """Sums up what was trained, from the success of each seed."""
  success, interval = runs.mean(single)
  shares = map(contribution, before, single, full)
  defined = [(s, share) for s, share in zip(seeds, shares) if share is not None]
  if not defined:
    return Row(trained, success, interval, None, None, ())
  kept, values = zip(*defined)
  share, share_interval = runs.mean(values)
  return Row(trained, success, interval, share, share_interval, kept)


def measure(
  root: pathlib.Path, seeds: Sequence[int], quick: bool
) -> tuple[list[float], list[Row]]:
  """Makes the runs; the success of the warm starts, and a row for each kind."""
  warm = [quickstart.warm_start(root, seed, quick) for seed in seeds]
  runs.make(warm)
  made = {
    ALL: [quickstart.trained(root, METHOD, seed, quick) for seed in seeds]
  }
  for block in range(blocks(warm[0].workdir / 'final')):
    made[f'{block}'] = [alone(root, block, seed, quick) for seed in seeds]
  runs.make([run for kind in made.values() for run in kind])
  results = {k: [runs.result(run) for run in v] for k, v in made.items()}
  before = runs.over_seeds(results[ALL], 'before', 'sampled')
  after = {
    kind: runs.over_seeds(each, 'after', 'sampled')
    for kind, each in results.items()
  }
  rows = [
    row(kind, before, single, after[ALL], seeds)
    for kind, single in after.items()
  ]
  return before, rows


def tell(
  before: Sequence[float], rows: Sequence[Row], seeds: Sequence[int]
) -> None:
  """Prints the numbers."""
  unit, aim = 'success rate', 'none'
  name = 'layer_contribution/before'
  value, interval = runs.mean(before)
  runs.line(name, value, unit, aim, seeds, interval)
  for each in rows:
    name = f'layer_contribution/{each.trained}'
    runs.line(f'{name}/after', each.success, unit, aim, seeds, each.interval)
    runs.line(
      f'{name}/share', each.share, 'of the gain of all', aim,
      each.seeds, each.share_interval,
    )  # fmt: skip


def write(
  folder: pathlib.Path, before: Sequence[float], rows: Sequence[Row]
) -> None:
  """Writes the table and the bars."""
  body = [['nothing', runs.percent(*runs.mean(before)), '']]
  for each in rows:
    success = runs.percent(each.success, each.interval)
    body.append([each.trained, success, _text(each)])
  header = ('block trained', 'success, sampled', 'contribution')
  runs.write_table(folder / 'layer_contribution.md', header, body)
  bars.bars(
    [
      bars.Bar(each.trained, each.share, each.share_interval)
      for each in rows
      if each.trained != ALL
    ],
    title='Contribution of each block, trained alone',
    unit='share of the gain of all blocks',
    reference=1.0,
    path=folder / 'layer_contribution.png',
  )


def _text(each: Row) -> str:
  if each.share is None:
    return 'undefined'
  if each.share_interval is None:
    return f'{each.share:.2f}'
  low, high = each.share_interval
  return f'{each.share:.2f} ({low:.2f} to {high:.2f})'


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  quick, seeds = runs.quick(), runs.seeds()
  before, rows = measure(runs.root(), seeds, quick)
  tell(before, rows, seeds)
  write(runs.root() if quick else runs.RESULTS, before, rows)
  if not quick:
    summary.write()


if __name__ == '__main__':
  runs.start(main)
