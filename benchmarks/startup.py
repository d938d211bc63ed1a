"""How long it takes to begin.

  python -m benchmarks.startup [--quick]

Seconds to import arl, and from the command of the quickstart's reinforcement
learning to its first finished step: with nothing compiled before, and with what
the first command left. Before that step the policy is evaluated on all final
tasks. Each is a process of its own. Prints a JSON object a line, and rewrites
benchmarks/results/startup.md.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

import jax
from absl import app

from benchmarks import machine, options, processes, rounds
from experiments.studies import runs

TABLE = pathlib.Path(__file__).parent / 'results' / 'startup.md'
AIMS = {'import': '<= 2', 'first_step/cold': '', 'first_step/warm': '<= 30'}
_LIMIT = 600.0  # seconds that a command may take


def imports() -> float:
  """Seconds of a Python that imports arl and ends."""
  began = time.monotonic()
  subprocess.run(
    [sys.executable, '-c', 'import arl'], cwd=processes.ROOT, check=True
  )
  return time.monotonic() - began


def first_step(model: str, folder: pathlib.Path, quick: bool) -> float:
  """Seconds from the command of a run to the end of its first step.

  Args:
    model: the folder that it starts from.
    folder: of the run; what is compiled is kept beside it.
    quick: whether it is the smoke run.

  Raises:
    RuntimeError: the run ended, or took too long, without a step.
  """
  argument = f'model={model}{",quick" if quick else ""}'
  folder.mkdir()
  return processes.seconds_until(
    [sys.executable, '-m', 'launch.train', f'--workdir={folder}',
     f'--config=experiments/quickstart.py:{argument}'],
    lambda: _stepped(folder / 'metrics.jsonl'),
    folder / 'log.txt',
    environment(folder.parent),
    _LIMIT,
  )  # fmt: skip


def _stepped(path: pathlib.Path) -> bool:
  """Whether the metrics of a step are there, to the end of their line."""
  return path.exists() and '\n' in path.read_text('utf-8')


def environment(cache: pathlib.Path) -> dict[str, str]:
  """That of a user whose cache folder is this one."""
  kept = {
    k: v for k, v in os.environ.items() if k != 'JAX_COMPILATION_CACHE_DIR'
  }
  return {**kept, 'JAX_PLATFORMS': 'cpu', 'XDG_CACHE_HOME': str(cache)}


def warm_start(folder: pathlib.Path, cache: pathlib.Path, argument: str) -> str:
  """Trains the quickstart's warm start; gives the folder of its model.

  Args:
    folder: of the run.
    cache: where what is compiled is kept.
    argument: of experiments/quickstart_sft.py: 'quick', or '' for all of it.
  """
  subprocess.run(
    [sys.executable, '-m', 'launch.sft', f'--workdir={folder}',
     f'--config=experiments/quickstart_sft.py:{argument}'],
    cwd=processes.ROOT, check=True, stdout=sys.stderr, env=environment(cache),
  )  # fmt: skip
  return str(folder / 'final')


def measure(quick: bool) -> dict[str, list[float]]:
  """Seconds by what was measured."""
  count = 2 if quick else 7
  imports()  # once, so that Python's own compiled files are there
  made = {'import': [imports() for _ in range(count)]}
  with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch)
    model = warm_start(folder / 'sft', folder / 'apart', 'quick')
    step = lambda name: first_step(model, folder / name, quick)
    made['first_step/cold'] = [step('cold')]
    made['first_step/warm'] = [
      step(f'warm-{i}') for i in range(1 if quick else 3)
    ]
  return made


def tell(name: str, seconds: Sequence[float]) -> list[str]:
  """Prints a line; gives its row of the table."""
  value, interval = rounds.median(seconds)
  ends = [round(end, 2) for end in interval] if len(seconds) > 1 else None
  aim = AIMS[name]
  runs.line(f'startup/{name}', value, 's', aim, (0,), ends)
  met = ('met' if machine.meets(value, aim) else 'missed') if aim else ''
  spread = f' ({ends[0]:.2f} to {ends[1]:.2f})' if ends else ''
  return [name, f'{value:.2f}{spread}', aim, met]


def write(body: list[list[str]], load: float) -> None:
  """Rewrites the table, with what has to be known to read it."""
  about = (
    'Written by `python -m benchmarks.startup`: seconds of `import arl`, and'
    ' from the command\nof the quickstart to its first finished step, which an'
    ' evaluation on 512 tasks comes\nbefore; cold with nothing compiled, warm'
    ' with what the command before left. Medians\nand their range.'
  )
  table = runs.markdown(('what', 'seconds', 'aim', ''), body)
  machine.write(TABLE, about, table, load, [f'jax {jax.__version__}'])


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {json.dumps(argv[1:])}')
  load = os.getloadavg()[0]
  body = [tell(*item) for item in measure(options.quick()).items()]
  if not options.quick():
    write(body, load)


if __name__ == '__main__':
  options.start(main)
