"""Whether the doctor finds what was planted, and nothing where nothing was.

  python -m experiments.studies.doctor [--quick] [--workdir=DIR] [--seeds=N]

Short real runs of a small world, from one warm start: healthy ones, and one for
each fault of experiments/studies/planted.py. A run's row says which signs were
told while it trained. Its own sign has to be among them, and any other has to
follow from it by what `arl.evaluate.doctor.FOLLOWS` says. Then the quickstart
as it is, a few seeds, where nothing may be told. Prints a JSON object a line
and rewrites experiments/results/doctor.md.
"""

import contextlib
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import ml_collections
from absl import logging

from arl.evaluate import doctor, findings
from arl.train import loop, watch
from experiments.studies import planted, quickstart, runs, summary

QUICK = ('masks', 'truncation', 'loops', 'engine, shifted')


class Told(NamedTuple):
  """A sign that a run told.

  Attributes:
    step: when it was first told.
    sentence: as it was.
    cause: the sign that explains it; '' for none.
  """

  step: int
  sentence: str
  cause: str


def train(config: ml_collections.ConfigDict, folder: pathlib.Path) -> None:
  """Trains what has no results yet; what it prints goes to a file."""
  if (folder / 'results.json').exists():
    return
  folder.mkdir(parents=True, exist_ok=True)
  logging.set_verbosity(logging.WARNING)
  cache = str(folder.parent / '.compiled')
  jax.config.update('jax_compilation_cache_dir', cache)
  with (
    (folder / 'log.txt').open('w') as log,
    contextlib.redirect_stdout(log),
  ):
    loop.train(config, str(folder))


def told(folder: pathlib.Path) -> dict[str, Told]:
  """What a run told, by the name of the sign, each when it was first."""
  made: dict[str, Told] = {}
  lines = watch.read(folder, watch.WARNINGS)
  names = {line['name'] for line in lines}
  for line in lines:
    step = line.pop('step')
    found = findings.Finding(**line)
    if found.state == findings.TRIPS and found.name not in made:
      sentence = found.evidence
      made[found.name] = Told(step, sentence, cause(found.name, names))
  return made


def cause(name: str, names: set[str]) -> str:
  """The sign among those told that explains another; '' for none."""
  causes = [b for a, b in doctor.FOLLOWS if a == name and b in names]
  return causes[0] if causes else ''


def own(fault: str) -> str:
  """The sign that a fault has to trip; '' for a healthy run."""
  return '' if fault == planted.HEALTHY else fault.split(',')[0]


def verdict(fault: str, found: Mapping[str, Told]) -> bool:
  """Whether a run told its own sign, and no other without a cause."""
  mine = own(fault)
  others = [x.cause for name, x in found.items() if name != mine]
  return (not mine or mine in found) and all(others)


def row(fault: str, found: Mapping[str, Told]) -> list[str]:
  """The cells of a run."""
  mine = own(fault)
  told_own = found.get(mine)
  others = [
    f'{name} (step {x.step}; from {x.cause or "nothing known"})'
    for name, x in found.items()
    if name != mine
  ]
  changes = ', '.join(
    f'{k} = {_short(v)}' for k, v in planted.FAULTS.get(fault, {}).items()
  )
  return [
    fault,
    changes or 'nothing',
    mine or '–',
    f'{told_own.step}' if told_own else '–',
    told_own.sentence if told_own else '–',
    ', '.join(others) or '–',
    'yes' if verdict(fault, found) else 'NO',
  ]


def _short(value: object) -> str:
  return str(value).removeprefix('experiments.studies.')


def say(
  name: str, fault: str, found: Mapping[str, Told], seeds: Sequence[int]
) -> None:
  """Prints when each sign was first told, and the verdict."""
  for sign in doctor.SIGNS:
    step = found[sign].step if sign in found else None
    aim = 'told' if sign == own(fault) else 'untold, or explained'
    runs.line(f'doctor/{name}/{sign}', step, 'step', aim, seeds, None)
  good = float(verdict(fault, found))
  runs.line(f'doctor/{name}', good, 'as it has to be', '1', seeds, None)


def small(root: pathlib.Path, quick: bool) -> list[list[str]]:
  """Runs of the small world: a row each."""
  warm = root / 'warm'
  train(planted.warm_start(), warm)
  model, body = str(warm / 'final'), []
  faults = QUICK if quick else tuple(planted.FAULTS)
  plan = [(planted.HEALTHY, seed) for seed in runs.seeds()]
  plan += [(fault, 0) for fault in faults]
  for count, (fault, seed) in enumerate(plan, start=1):
    folder = root / f'{fault.replace(", ", "_")}_seed{seed}'
    train(planted.run(model, fault, seed, quick), folder)
    print(f'{count}/{len(plan)} {folder}', file=sys.stderr, flush=True)
    found = told(folder)
    say(folder.name, fault, found, (seed,))
    body.append(row(fault, found))
  return body


def large(root: pathlib.Path) -> list[list[str]]:
  """The quickstart as it is: a row a seed."""
  seeds, body = runs.seeds(), []
  runs.make([quickstart.warm_start(root, seed, False) for seed in seeds])
  each = [quickstart.trained(root, 'dapo', seed, False) for seed in seeds]
  runs.make(each)
  for seed, run in zip(seeds, each):
    found = told(run.workdir)
    say(f'quickstart_seed{seed}', planted.HEALTHY, found, (seed,))
    cells = row(planted.HEALTHY, found)
    body.append([f'quickstart, seed {seed}', *cells[1:]])
  return body


def main(argv: list[str]) -> None:
  del argv
  quick = runs.quick()
  body = small(runs.root() / 'doctor', quick)
  if quick:
    return
  body += large(runs.root())
  header = (
    'planted', 'what differs', 'its sign', 'told at step', 'evidence',
    'others told', 'as it has to be',
  )  # fmt: skip
  runs.write_table(runs.RESULTS / 'doctor.md', header, body)
  summary.write()


if __name__ == '__main__':
  runs.start(main)
