"""Training runs of a study: made where missing, two at a time, then read."""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from absl import flags

from arl import command
from arl.evaluate import intervals
from arl.train import metrics

RESULTS = pathlib.Path(__file__).parents[1] / 'results'


def start(
  main: Callable[[list[str]], None],
  seeds: int = 3,
  define: Callable[[], object] = lambda: None,
) -> None:
  """Runs a study with the flags that all of them share.

  Args:
    main: the study.
    seeds: how many if not told.
    define: defines the flags of its own.
  """

  def both() -> None:
    flags.DEFINE_bool('quick', False, 'Smoke runs: the same lines, fast.')
    flags.DEFINE_string('workdir', 'runs/studies', 'Where runs are kept.')
    flags.DEFINE_bool(
      'finished', False, 'Train nothing: tell what is finished.'
    )
    flags.DEFINE_integer('seeds', seeds, 'From how many seeds.', lower_bound=1)
    define()

  command.run(main, both)


def quick() -> bool:
  """Whether these are smoke runs."""
  return flags.FLAGS.quick


def root() -> pathlib.Path:
  """Where the runs are kept, smoke runs apart."""
  kind = 'quick' if quick() else 'full'
  return pathlib.Path(flags.FLAGS.workdir) / kind


def seeds() -> tuple[int, ...]:
  """The seeds of a study."""
  return tuple(range(1 if quick() else flags.FLAGS.seeds))


class Run(NamedTuple):
  """One training run.

  Attributes:
    entry: 'launch.train' or 'launch.sft'.
    config: the --config flag.
    workdir: where it is written.
    overrides: further flags.
  """

  entry: str
  config: str
  workdir: pathlib.Path
  overrides: tuple[str, ...] = ()


def finished(run: Run) -> bool:
  """Whether a run has its results."""
  return (run.workdir / 'results.json').exists()


def _make(run: Run) -> None:
  if finished(run):
    return
  run.workdir.mkdir(parents=True, exist_ok=True)
  command = [
    sys.executable, '-m', run.entry, f'--config={run.config}',
    f'--workdir={run.workdir}', *run.overrides,
  ]  # fmt: skip
  # What two runs compile alike is compiled once.
  cache = {'JAX_COMPILATION_CACHE_DIR': str(run.workdir.parent / '.compiled')}
  with (run.workdir / 'log.txt').open('w') as log:
    done = subprocess.run(
      command,
      stdout=log,
      stderr=subprocess.STDOUT,
      env={**cache, **os.environ},
    )
  if done.returncode:
    raise RuntimeError(f'{" ".join(command)} failed; see {run.workdir}/log.txt')


def make(runs: Sequence[Run], at_once: int = 2) -> None:
  """Trains what has no results yet; says on stderr how far it is.

  With the flag --finished it trains nothing.
  """
  if 'finished' in flags.FLAGS and flags.FLAGS.finished:
    return
  with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
    waiting = {pool.submit(_make, run): run for run in runs}
    for i, future in enumerate(concurrent.futures.as_completed(waiting), 1):
      future.result()
      workdir = waiting[future].workdir
      print(f'{i}/{len(runs)} {workdir}', file=sys.stderr, flush=True)


def result(run: Run) -> dict[str, Any]:
  """The results.json of a run."""
  return json.loads((run.workdir / 'results.json').read_text())


def rows(run: Run) -> list[dict[str, float]]:
  """The metrics of a run."""
  return metrics.read(run.workdir)


def kept(
  run: Run, name: str, measure: Callable[[], dict[str, float]]
) -> dict[str, float]:
  """What `measure` gives, from a file in the run's folder once it is there."""
  path = run.workdir / f'{name}.json'
  if not path.exists():
    path.write_text(json.dumps(measure()))
  return json.loads(path.read_text())


def mean(values: Sequence[float]) -> tuple[float, list[float] | None]:
  """The mean and its 95 % t interval over seeds; none for one seed."""
  if len(values) < 2:
    return values[0], None
  middle, low, high = intervals.mean_and_t(values)
  return middle, [round(low, 4), round(high, 4)]


def line(
  name: str,
  value: float | None,
  unit: str,
  aim: str,
  seeds: Sequence[int],
  interval: Sequence[float] | None,
) -> dict[str, Any]:
  """Prints a number of a study as one JSON object, and gives it.

  None stands for a number that is undefined.
  """
  made = {
    'name': name,
    'value': None if value is None else float(f'{value:.5g}'),
    'unit': unit,
    'aim': aim,
    'seeds': list(seeds),
    'interval': interval,
  }
  print(json.dumps(made), flush=True)
  return made


def cell(name: str, values: Sequence[float], unit: str, aim: str = '') -> str:
  """Prints the mean over seeds as a line; its cell of a table."""
  value, interval = mean(values)
  line(name, value, unit, aim, seeds(), interval)
  return spread(value, interval)


def markdown(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
  """A Markdown table, and a line's end."""
  lines = [header, ['---'] * len(header), *body]
  return '\n'.join(f'| {" | ".join(cells)} |' for cells in lines) + '\n'


def write_table(
  path: pathlib.Path,
  header: Sequence[str],
  body: Sequence[Sequence[str]],
  seeds: Sequence[int] = (),
) -> None:
  """Writes a Markdown table, and of which seeds it is, where that is told."""
  path.parent.mkdir(parents=True, exist_ok=True)
  text = markdown(header, body)
  if seeds:
    text += f'\nSeeds: {", ".join(map(str, seeds))}.\n'
  path.write_text(text, encoding='utf-8')


def percent(value: float, interval: Sequence[float] | None) -> str:
  """A rate with its interval, for tables; one that leaves 0 to 1 is cut."""
  cut = interval and (max(interval[0], 0), min(interval[1], 1))
  return spread(value, cut)


def spread(value: float, interval: Sequence[float] | None) -> str:
  """A number with its interval, for tables."""
  if interval is None:
    return f'{value:.3f}'
  return f'{value:.3f} ({interval[0]:.3f} to {interval[1]:.3f})'


def over_seeds(
  results: Sequence[Mapping[str, Any]], when: str, how: str
) -> list[float]:
  """Success of each seed: when 'before' or 'after', how 'sampled', 'greedy'."""
  return [each[when][how]['success'] for each in results]
