r"""How long the quickstart takes to 0.9 success, with arl and with TRL.

  python -m benchmarks.quickstart [--quick] [--seeds=3] [--trl_python=PYTHON]

`launch.sft` makes the warm start, as README's first command does. From it both
learn by reinforcement on the same environment, with the same numbers, and are
evaluated alike, before the first batch and after every other one: on 128
held-out tasks, sampled and greedily. Told are seconds from the command to
sampled success of 0.9 or more. arl is `launch.train`, once with the compiled
code that the warm start's command has left, as a user has it, and once with
none; TRL is its `GRPOTrainer`, with `generate` of transformers, see
`benchmarks.sides.trl_agent`. Prints a JSON object a line and rewrites
benchmarks/results/quickstart.md.
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Callable
from typing import NamedTuple

import jax
from absl import app, flags

from benchmarks import machine, options, processes, startup
from experiments.studies import runs

TABLE = pathlib.Path(__file__).parent / 'results' / 'quickstart.md'
AIM = '>= 2'
_REACHED = 0.9
_EVERY, _TASKS = 2, 128  # batches, and held-out tasks of each evaluation
_LIMIT = 1800.0  # seconds of a run


class Plan(NamedTuple):
  """What is run.

  Attributes:
    model: the folder of the warm start.
    compiled: that of the compiled code that its command has left.
    argument: of experiments/quickstart.py.
    reached: the success that ends a run.
    batches: that a run has at most.
  """

  model: str
  compiled: pathlib.Path
  argument: str
  reached: float
  batches: int


def after_warm_start(plan: Plan, seed: int, folder: pathlib.Path) -> float:
  """Seconds that arl takes with the warm start's compiled code.

  It is used where it was made, since jax finds it nowhere else.
  """
  aside = folder / 'aside'
  shutil.copytree(plan.compiled, aside)
  try:
    return ours(plan, seed, folder, plan.compiled)
  finally:
    shutil.rmtree(plan.compiled)
    aside.rename(plan.compiled)


def ours(
  plan: Plan,
  seed: int,
  folder: pathlib.Path,
  compiled: pathlib.Path | None = None,
) -> float:
  """Seconds that arl takes with compiled code of a folder, or with none."""
  run = folder / 'run'
  return processes.seconds_until(
    [sys.executable, '-m', 'launch.train', f'--workdir={run}',
     f'--config=experiments/quickstart.py:{plan.argument}',
     f'--config.seed={seed}', f'--config.steps={plan.batches}',
     f'--config.eval.every={_EVERY}', f'--config.eval.final_tasks={_TASKS}'],
    lambda: reached(run / 'metrics.jsonl', 'eval/sampled', plan.reached),
    folder / 'log.txt', startup.environment(compiled or folder), _LIMIT,
  )  # fmt: skip


def theirs(plan: Plan, seed: int, folder: pathlib.Path) -> float:
  """Seconds that TRL takes."""
  settings, out = folder / 'settings.json', folder / 'out.jsonl'
  told = {
    'model': plan.model,
    'seed': seed,
    'every': _EVERY,
    'batches': plan.batches,
    'config': plan.argument,
    'out': str(out),
  }
  settings.write_text(json.dumps(told), encoding='utf-8')
  env = startup.environment(folder)
  return processes.seconds_until(
    [str(options.pythons()['trl']), '-m', 'benchmarks.sides.trl_agent',
     str(settings)],
    lambda: reached(out, 'sampled', plan.reached),
    folder / 'log.txt',
    {**env, 'HF_HUB_OFFLINE': '1', 'TRL_EXPERIMENTAL_SILENCE': '1'},
    _LIMIT,
  )  # fmt: skip


def reached(path: pathlib.Path, name: str, least: float) -> bool:
  """Whether a line of a file has a number under a name that is large enough."""
  if not path.exists():
    return False
  whole, _, _ = path.read_text('utf-8').rpartition('\n')
  rows = [json.loads(line) for line in whole.splitlines()]
  return any(row.get(name, -1.0) >= least for row in rows)


def plan_of(quick: bool, scratch: pathlib.Path) -> Plan:
  """What is run: a smoke run ends with its first evaluation."""
  word, cache = 'quick' if quick else '', scratch / 'cache'
  model = startup.warm_start(scratch / 'sft', cache, word)
  argument = f'model={model}' + (',quick' if quick else '')
  least, batches = (0.0, 3) if quick else (_REACHED, 60)
  return Plan(model, cache, argument, least, batches)


def measure(plan: Plan, seeds: int, scratch: pathlib.Path) -> list[dict]:
  """The seconds of each seed by library, one after the other."""
  sides: dict[str, Callable] = {'arl': after_warm_start, 'arl_cold': ours}
  if options.pythons()['trl']:
    sides['trl'] = theirs
  made = []
  for seed in range(seeds):
    took = {}
    for name, side in sides.items():
      folder = scratch / f'{name}_{seed}'
      folder.mkdir()
      took[name] = side(plan, seed, folder)
      print(f'seed {seed}: {name} {took[name]:.0f} s', file=sys.stderr)
    made.append(took)
  return made


def tell(made: list[dict]) -> list[list[str]]:
  """Prints the lines; gives the rows of the table."""
  seeds, body = range(len(made)), []
  for name in ('arl', 'arl_cold', 'trl'):
    values = [took[name] for took in made if name in took]
    value, interval = runs.mean(values) if values else (None, None)
    runs.line(f'quickstart/{name}', value, 's', '', seeds, interval)
    cell = 'skipped' if value is None else runs.spread(value, interval)
    body.append([name, cell, ''])
  if all('trl' in took for took in made):
    ratio = [took['trl'] / took['arl'] for took in made]
    value, interval = runs.mean(ratio)
    runs.line('quickstart/ratio', value, 'x', AIM, seeds, interval)
    met = 'met' if machine.meets(value, AIM) else 'missed'
    body.append(['trl / arl', runs.spread(value, interval), f'{AIM}, {met}'])
  return body


def write(body: list[list[str]], load: float) -> None:
  """Rewrites the table, with what has to be known to read it."""
  about = (
    'Written by `python -m benchmarks.quickstart`: seconds from the command to'
    f' {_REACHED} success\non held-out tasks, from the same warm start, with'
    ' the same environment, episodes, sizes,\nlearning rate and evaluations.'
    ' arl has the compiled code that the command of the warm\nstart left;'
    ' arl_cold has none. Means over seeds with 95 % intervals.'
  )
  table = runs.markdown(('', 'seconds', 'aim'), body)
  machine.write(TABLE, about, table, load, [f'jax {jax.__version__}'])


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  load, quick = os.getloadavg()[0], options.quick()
  with tempfile.TemporaryDirectory() as name:
    scratch = pathlib.Path(name)
    plan = plan_of(quick, scratch)
    body = tell(measure(plan, 1 if quick else flags.FLAGS.seeds, scratch))
  if not quick:
    write(body, load)


def define() -> None:
  """Defines the flags of this benchmark's own."""
  flags.DEFINE_integer('seeds', 3, 'From how many seeds.', 1)


if __name__ == '__main__':
  options.start(main, define)
