r"""Rollouts that run ahead against the synchronous loop, where tools are slow.

  python -m benchmarks.pipeline [--quick] [--model=DIR] [--seeds=2] \
    [--workdir=DIR]

The quickstart with tools that take 50 to 500 ms, see `benchmarks.slow_tools`,
from one warm start: in the plain synchronous loop, in the synchronous loop
whose episodes advance at their own pace, and ahead of the learner. Seconds of
training, compiled before, until two batches have a mean success of 0.85. Both
synchronous loops train on the same episodes, bit for bit, so of the plain one a
single batch is run, to know what a batch costs it. Prints a JSON object a line
and rewrites benchmarks/results/pipeline.md and its figure. What was run lies in
the workdir, and is not run again.
"""

import json
import os
import pathlib
import sys
from typing import Any, NamedTuple

import jax
import numpy as np
from absl import app, flags
from matplotlib import figure
from matplotlib.backends import backend_agg

from arl.train import metrics
from benchmarks import machine, options, processes, slow_tools, startup
from experiments.studies import runs

TABLE = pathlib.Path(__file__).parent / 'results' / 'pipeline.md'
AIM = '>= 2.6'
PLAIN, OWN_PACE, AHEAD = slow_tools.WAYS
_LIMIT = 1500.0  # seconds of a run


class Plan(NamedTuple):
  """What is run.

  Attributes:
    model: the folder of the warm start.
    quick: whether it is the smoke run.
    reached: the mean success of two batches that ends a run.
    folder: of the runs.
  """

  model: str
  quick: bool
  reached: float
  folder: pathlib.Path


class Seen(NamedTuple):
  """What is known of a run, batch by batch.

  Attributes:
    seconds: since training began, at the end of each.
    success: of its episodes.
    facts: means over the batches but the first, which compiles.
  """

  seconds: np.ndarray
  success: np.ndarray
  facts: dict[str, float]


def enough(success: np.ndarray, reached: float) -> int | None:
  """The number of batches after which two had a mean success; None: never."""
  means = (success[1:] + success[:-1]) / 2
  there = np.flatnonzero(means >= reached)
  return int(there[0]) + 2 if there.size else None


def seen(path: pathlib.Path) -> Seen:
  """What the metrics of a run say."""
  rows = metrics.read(path) if (path / metrics.FILE).exists() else []
  column = lambda name: np.array([row[name] for row in rows], float)
  later = rows[1:] or rows
  told = {
    name: float(np.mean([row[name] for row in later]))
    for name in ('time/step', 'share/update', 'ahead/age', 'time/waited')
    if later and name in later[0]
  }
  seconds = np.cumsum(column('time/step'))
  return Seen(seconds, column('train/success'), told)


def command(plan: Plan, way: str, folder: pathlib.Path, *flags_: str) -> dict:
  """What `processes.seconds_until` is to run; all share what was compiled."""
  argument = f'model={plan.model},way={way}{",quick" if plan.quick else ""}'
  folder.mkdir(parents=True, exist_ok=True)
  return {
    'command': [
      sys.executable, '-m', 'launch.train', f'--workdir={folder}',
      f'--config=benchmarks/slow_tools.py:{argument}', *flags_,
    ],
    'log': folder / 'log.txt',
    'env': startup.environment(plan.folder),
    'limit': _LIMIT,
  }  # fmt: skip


def compile_once(plan: Plan, way: str) -> None:
  """Runs two batches with tools that take no time."""
  folder = plan.folder / f'{way}_compiled'
  done = lambda: len(seen(folder).success) > 1
  if not done():
    swift = '--config.env.least=0.0', '--config.env.most=0.0'
    processes.seconds_until(done=done, **command(plan, way, folder, *swift))


def run(plan: Plan, way: str, seed: int) -> Seen:
  """Trains in a way until it is good enough; of the plain one, a batch."""
  folder = plan.folder / f'{way}_{seed}'

  def done() -> bool:
    success = seen(folder).success
    if way == PLAIN:
      return len(success) > 0
    return enough(success, plan.reached) is not None

  if not done():
    began = command(plan, way, folder, f'--config.seed={seed}')
    processes.seconds_until(done=done, **began)
  return seen(folder)


def warm_start(folder: pathlib.Path, quick: bool) -> str:
  """Makes the warm start, unless it is there; gives its folder."""
  if not (folder / 'final').exists():
    startup.warm_start(folder, folder.parent, 'quick' if quick else '')
  return str(folder / 'final')


def seconds_to(plan: Plan, made: dict[str, Seen]) -> dict[str, float]:
  """Seconds of each way until it is good enough.

  The plain loop has the batches of the one at its own pace, each of which costs
  it as much more as its first did.
  """
  took = {}
  for way in (OWN_PACE, AHEAD):
    batches = enough(made[way].success, plan.reached)
    assert batches is not None
    took[way] = float(made[way].seconds[batches - 1])
    took[f'{way}/batches'] = batches
  more = made[PLAIN].seconds[0] - made[OWN_PACE].seconds[0]
  took[PLAIN] = took[OWN_PACE] + took[f'{OWN_PACE}/batches'] * float(more)
  return took


def tell(plan: Plan, made: list[dict[str, Seen]]) -> list[list[str]]:
  """Prints the lines; gives the rows of the table."""
  took, seeds, body = (
    [seconds_to(plan, one) for one in made],
    range(len(made)),
    [],
  )

  def said(name: str, values: list[float], unit: str, aim: str = '') -> str:
    value, interval = runs.mean(values)
    runs.line(f'pipeline/{name}', value, unit, aim, seeds, interval)
    met = machine.meets(value, aim) if aim else None
    end = '' if met is None else f', {"met" if met else "missed"}'
    return runs.spread(value, interval) + end

  for way, against in ((PLAIN, AIM), (OWN_PACE, ''), (AHEAD, '')):
    seconds = said(way, [one[way] for one in took], 's')
    same = way if way != PLAIN else OWN_PACE
    batches = said(f'{way}/batches', [x[f'{same}/batches'] for x in took], '')
    step = (
      f'{made[0][PLAIN].seconds[0]:.1f}'
      if way == PLAIN
      else said(
        f'{way}/batch', [one[way].facts['time/step'] for one in made], 's'
      )
    )
    ratio = [one[way] / one[AHEAD] for one in took]
    cell = '' if way == AHEAD else said(f'{way}/ahead', ratio, 'x', against)
    body.append([way, seconds, batches, step, cell])
  for name in ('ahead/age', 'time/waited'):
    said(name, [one[AHEAD].facts[name] for one in made], '')
  return body


def draw(made: dict[str, Seen], path: pathlib.Path) -> None:
  """Success of each batch over the seconds of training, of a seed."""
  drawn = figure.Figure((6, 3.6), layout='constrained')
  backend_agg.FigureCanvasAgg(drawn)
  axis = drawn.subplots()
  for way, dash in ((OWN_PACE, '--'), (AHEAD, '-')):
    axis.plot(
      made[way].seconds, made[way].success, dash, marker='o', markersize=3,
      label={OWN_PACE: 'synchronous, own pace', AHEAD: 'ahead'}[way],
    )  # fmt: skip
  axis.set(
    xlabel='seconds of training', ylabel='success of a batch', ylim=(0, 1)
  )
  axis.legend(frameon=False)
  drawn.savefig(path, dpi=150)


def write(body: list[list[str]], load: float) -> None:
  """Rewrites the table, with what has to be known to read it."""
  header = '', 'seconds', 'batches', 'a batch, s', 'times as long as ahead'
  about = (
    'Written by `python -m benchmarks.pipeline`: seconds of training until two'
    ' batches in a row\nhave a mean success of 0.85; tools take 50 to 500 ms,'
    ' and everything was compiled before.\nMeans over seeds with 95 %'
    ' intervals. The plain loop trains on the same episodes as the\none at its'
    ' own pace; one batch of it is run, and its seconds follow from that.'
  )
  picture = '\n![Success over seconds](pipeline.png)\n'
  table = runs.markdown(header, body) + picture
  machine.write(TABLE, about, table, load, [f'jax {jax.__version__}'])


def define() -> None:
  """Defines the flags of this benchmark's own."""
  flags.DEFINE_string('model', None, 'The warm start; none: made first.')
  flags.DEFINE_integer('seeds', 2, 'From how many seeds.', 1)
  flags.DEFINE_string('workdir', 'runs/pipeline', 'Where runs are kept.')


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  load, quick = os.getloadavg()[0], options.quick()
  folder = pathlib.Path(flags.FLAGS.workdir).absolute() / (
    'quick' * quick or 'full'
  )
  model = flags.FLAGS.model or warm_start(folder / 'sft', quick)
  plan = Plan(
    str(pathlib.Path(model).absolute()), quick, 0.0 if quick else 0.85, folder
  )
  made: list[dict[str, Any]] = []
  for way in (AHEAD, OWN_PACE):
    compile_once(plan, way)
  for seed in range(1 if quick else flags.FLAGS.seeds):
    ways = {way: run(plan, way, seed) for way in (AHEAD, OWN_PACE)}
    ways[PLAIN] = made[0][PLAIN] if made else run(plan, PLAIN, seed)
    made.append(ways)
    print(json.dumps(seconds_to(plan, ways)), file=sys.stderr)
  body = tell(plan, made)
  if not quick:
    write(body, load)
    draw(made[0], TABLE.with_suffix('.png'))


if __name__ == '__main__':
  options.start(main, define)
