r"""What objectives and advantages cost, against the libraries people use.

  python -m benchmarks.objectives [--quick] [--core=N] \
    [--verl_python=PYTHON] [--trl_python=PYTHON] [--tunix_python=PYTHON]

For every library and row, one process of arl and one of the library compute on
the same arrays on one core, in turn. What they give is compared first: a row
whose outputs differ has failed, and nothing is timed. Prints a JSON object a
line and rewrites benchmarks/results/objectives.md. A library whose Python is
not given is skipped, which its lines say. Exits 1 if a row failed.

benchmarks/README.md says how to make the environments.
"""

import json
import os
import pathlib
import sys
import tempfile
from typing import NamedTuple

import numpy as np
from absl import app, flags

from benchmarks import cases, machine, options, processes, rounds
from experiments.studies import runs

TABLE = pathlib.Path(__file__).parent / 'results' / 'objectives.md'
_AGREES = 1e-5  # float32, and sums in another order
_MILLION = 1e6


class Peer(NamedTuple):
  """What arl is compared with.

  Attributes:
    rows: what it can do.
    ratio: which time is divided by which.
    aim: for the ratio.
    aims: where it is another one, by row.
  """

  rows: tuple[str, ...]
  ratio: str
  aim: str
  aims: dict[str, str] = {}


_LOSSES = ('ppo_clip', 'grpo_k3', 'gspo', 'cispo')
_CREDITS = ('gae', 'group_advantage')
_POOLING = ('group_normalize', 'sequence_ratio', 'sequence_mean')
PEERS = {
  'verl': Peer((*_LOSSES, *_CREDITS), 'theirs / arl', '>= 5', {'gae': '>= 50'}),
  'trl': Peer(_LOSSES, 'theirs / arl', '>= 5'),
  'tunix': Peer((*_LOSSES[:3], *_CREDITS), 'theirs / arl', '>= 1'),
  'plain': Peer(_POOLING, 'arl / theirs', '<= 1.5'),
}


class Outcome(NamedTuple):
  """A row as the table shows it; times in ms, None where not measured."""

  row: str
  shape: tuple[int, int]
  peer: str
  verdict: str
  ours: float | None = None
  theirs: float | None = None
  ratio: float | None = None
  interval: list[float] | None = None

  @property
  def name(self) -> str:
    rows, width = self.shape
    return f'objectives/{self.row}/{rows}x{width}/{self.peer}'

  @property
  def aim(self) -> str:
    peer = PEERS[self.peer]
    return peer.aims.get(self.row, peer.aim)


def skipped(outcome: Outcome, why: str) -> Outcome:
  """Prints the line of a row that was not measured, and gives it."""
  made = {'name': outcome.name, 'value': None, 'unit': 'x', 'aim': outcome.aim}
  print(json.dumps({**made, 'skipped': why}), flush=True)
  return outcome._replace(verdict='skipped')


def _line(name, value, unit, aim, interval=None):
  if interval is not None:
    interval = [round(end, 4) for end in interval]
  runs.line(name, value, unit, aim, (cases.SEED,), interval)


def timed(outcome: Outcome, ours: list[float], theirs: list[float]) -> Outcome:
  """Prints the lines of a row from the seconds of its rounds, and gives it."""
  sides = {'arl': ours, 'theirs': theirs}
  over, _, under = PEERS[outcome.peer].ratio.partition(' / ')
  ratio, interval = rounds.median(
    [x / y for x, y in zip(sides[over], sides[under])]
  )
  _line(outcome.name, ratio, 'x', outcome.aim, interval)
  shown = []
  for side, seconds in sides.items():
    value, ends = rounds.median([1e3 * x for x in seconds])
    _line(f'{outcome.name}/{side}', value, 'ms', '', ends)
    shown.append(value)
  return outcome._replace(
    verdict='met' if machine.meets(ratio, outcome.aim) else 'missed',
    ours=shown[0],
    theirs=shown[1],
    ratio=ratio,
    interval=interval,
  )


def measure_row(
  outcome: Outcome,
  ours: processes.Worker,
  theirs: processes.Worker,
  folder: pathlib.Path,
  plan: rounds.Plan,
) -> Outcome:
  """Prepares a row on both sides, compares what they give, measures."""
  firsts, outputs = [], []
  for side, worker in (('arl', ours), ('theirs', theirs)):
    file = folder / f'{side}.npz'
    request = {'row': outcome.row, 'shape': outcome.shape}
    firsts.append(worker.ask(**request, outputs=str(file)))
    with np.load(file) as arrays:
      outputs.append(dict(arrays))
  difference = cases.difference(*outputs)
  name, bound = f'{outcome.name}/difference', _AGREES * _MILLION
  _line(name, difference * _MILLION, 'millionths', f'<= {bound:g}')
  if difference > _AGREES:
    return outcome._replace(verdict='differs')
  return timed(outcome, *rounds.measure(ours, theirs, tuple(firsts), plan))


def compare(peer: str, python: str | None) -> tuple[list[Outcome], dict]:
  """Measures all rows of a peer; gives them and the versions it saw."""
  planned = [
    Outcome(row, shape, peer, '')
    for shape in cases.SHAPES
    for row in PEERS[peer].rows
  ]
  if python is None:
    why = f'no --{peer}_python'
    return [skipped(outcome, why) for outcome in planned], {}
  plan = rounds.QUICK if options.quick() else rounds.FULL
  with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    start = lambda side, python: processes.start(
      side, python, flags.FLAGS.core, folder
    )
    with start('arl', sys.executable) as ours, start(peer, python) as theirs:
      made = [measure_row(each, ours, theirs, folder, plan) for each in planned]
      return made, {'arl': ours.versions, peer: theirs.versions}


def _cells(outcome: Outcome) -> list[str]:
  rows, width = outcome.shape
  show = lambda x: '' if x is None else f'{x:.3g}'
  interval = ''
  if outcome.interval is not None:
    interval = ' ({:.3g} to {:.3g})'.format(*outcome.interval)
  ratio = show(outcome.ratio) + interval
  return [
    outcome.row, f'{rows} x {width}', outcome.peer, show(outcome.ours),
    show(outcome.theirs), ratio, outcome.aim, outcome.verdict,
  ]  # fmt: skip


def write(outcomes: list[Outcome], versions: dict, load: float) -> None:
  """Rewrites the table, with what has to be known to read it."""
  header = (
    'row', 'shape', 'library', 'arl, ms', 'library, ms', 'ratio', 'aim', '',
  )  # fmt: skip
  about = (
    'Written by `python -m benchmarks.objectives`; the README of `benchmarks`'
    ' says what\nthe rows are. Medians over rounds, ratios with 95 % intervals.'
  )
  table = runs.markdown(header, [_cells(each) for each in outcomes])
  facts = machine.used(versions)
  machine.write(TABLE, about, table, load, facts, 'one core')


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  load = os.getloadavg()[0]
  pythons = {**options.pythons(), 'plain': sys.executable}
  outcomes: list[Outcome] = []
  versions: dict = {}
  for peer in PEERS:
    made, seen = compare(peer, pythons[peer])
    outcomes += made
    versions.update(seen)
  if not options.quick():
    write(outcomes, versions, load)
  differing = [each.name for each in outcomes if each.verdict == 'differs']
  if differing:
    sys.exit(f'outputs differ: {", ".join(differing)}')


def define() -> None:
  """Defines the flag of this benchmark's own."""
  flags.DEFINE_integer('core', 0, 'The core that everything runs on.')


if __name__ == '__main__':
  options.start(main, define)
