"""How many untrusted programs a minute the sandbox runs.

  python -m benchmarks.sandbox [--quick]

Kinds of runs, each a sandbox of its own that is gone afterwards: a Python
program that prints a line (`cold` from nothing, `warm` from a pool), a function
called with its answer as JSON (`call`, from a pool), a command of a shell with
20 files (`shell`, from a pool) and `true` (`empty`, from nothing: what the
namespaces cost). `python` is the interpreter's start without a sandbox. Rates
are of 1 and 2 workers that ask again at once, so a pool refills itself out of
the same cores. Latency is of one worker that waits until the pool is full.
Prints a JSON object a line and rewrites benchmarks/results/sandbox.md unless
--quick. Exits 1 if a run did not do what it should.
"""

import concurrent.futures
import contextlib
import functools
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from absl import app

from arl.sandbox import (
  base,
  bubblewrap,
  calls,
  isolation,
  pool,
  programs,
  session,
)
from arl.sandbox import runs as sandbox
from benchmarks import machine, options, rounds
from experiments.studies import runs

TABLE = pathlib.Path(__file__).parent / 'results' / 'sandbox.md'
_AIM = '>= 300'
_WORKERS = (1, 2)
_LIMITS = base.Limits(seconds=30.0)
_READY = 4

# Does one run, and gives whether it did what it should.
Run = Callable[[], bool]


class Outcome(NamedTuple):
  """A row of the table.

  Attributes:
    kind: of the runs.
    rates: workers -> runs a minute, median and interval.
    latency: milliseconds, the 50th, 90th and 99th percentile of all runs.
    wrong: how many runs did not do what they should.
  """

  kind: str
  rates: dict[int, tuple[float, list[float]]]
  latency: list[float]
  wrong: int


def _printed(outcome: base.Outcome) -> bool:
  return outcome.stdout == b'1\n' and outcome.code == 0


def _python() -> bool:
  command = [bubblewrap.python(), '-I', '-S', '-B', '-c', 'print(1)']
  return subprocess.run(command, capture_output=True).stdout == b'1\n'


def _cold(program: base.Program, output: bytes) -> bool:
  return sandbox.run(program, _LIMITS).stdout == output


def _called(start: sandbox.Start) -> bool:
  answer = calls.call(start, 'def f(a, b): return a + b', 'f', [2, 3])
  return calls.same(answer.value, 5)


def _stepped(start: sandbox.Start, state: session.State) -> bool:
  after, outcome = session.step(start, state, 'cat f7; echo 1 > new')
  return outcome.stdout == b'7' and len(after.work) == len(state.work) + 1


@contextlib.contextmanager
def kinds() -> Iterator[dict[str, tuple[Run, Callable[[], None]]]]:
  """Kind -> what does a run, and what waits until it can be done warm."""
  printing, nothing = programs.python('print(1)'), lambda: None
  empty = base.Program(('/bin/true',))
  state = session.begin({f'f{i}': f'{i}'.encode() for i in range(20)})
  with (
    pool.Pool(printing, _LIMITS, _READY) as python,
    pool.Pool(calls.PROGRAM, _LIMITS, _READY) as function,
    pool.Pool(session.PROGRAM, _LIMITS, _READY) as shell,
  ):
    yield {
      'python': (_python, nothing),
      'empty': (functools.partial(_cold, empty, b''), nothing),
      'cold': (functools.partial(_cold, printing, b'1\n'), nothing),
      'warm': (lambda: _printed(python.run(printing)), python.full),
      'call': (functools.partial(_called, function.start), function.full),
      'shell': (functools.partial(_stepped, shell.start, state), shell.full),
    }


def rate(run: Run, workers: int, count: int) -> tuple[float, int]:
  """Runs a minute of so many workers, and how many went wrong."""
  with concurrent.futures.ThreadPoolExecutor(workers) as threads:
    start = time.perf_counter()
    made = list(threads.map(lambda _: run(), range(count)))
    return count / (time.perf_counter() - start) * 60, made.count(False)


def latencies(
  run: Run, wait: Callable[[], None], count: int
) -> tuple[list[float], int]:
  """Milliseconds of single runs, and how many went wrong."""
  times, wrong = [], 0
  for _ in range(count):
    wait()
    start = time.perf_counter()
    wrong += not run()
    times.append((time.perf_counter() - start) * 1e3)
  return times, wrong


def _percentiles(times: Sequence[float]) -> list[float]:
  cuts = statistics.quantiles(times, n=100, method='inclusive')
  return [cuts[49], cuts[89], cuts[98]]


def measure(
  kind: str, run: Run, wait: Callable[[], None], quick: bool
) -> Outcome:
  """Rounds of each number of workers in turn; the first one is not counted."""
  count, wrong = 10 if quick else 60, 0
  found: dict[int, list[float]] = {workers: [] for workers in _WORKERS}
  for round_ in range(-1, 2 if quick else 6):
    for workers in _WORKERS:
      each, bad = rate(run, workers, count)
      wrong += bad
      if round_ >= 0:
        found[workers].append(each)
  times, bad = latencies(run, wait, 20 if quick else 200)
  rates = {workers: rounds.median(each) for workers, each in found.items()}
  return Outcome(kind, rates, _percentiles(times), wrong + bad)


def say(outcome: Outcome) -> None:
  """Prints the lines of an outcome."""
  name = f'sandbox/{outcome.kind}'
  aim = _AIM if _aimed(outcome) else ''
  for workers, (value, ends) in outcome.rates.items():
    interval = [round(end, 4) for end in ends]
    runs.line(f'{name}/{workers}/runs', value, '1/min', aim, (0,), interval)
  for percent, value in zip((50, 90, 99), outcome.latency):
    runs.line(f'{name}/latency/{percent}', value, 'ms', '', (0,), None)
  runs.line(f'{name}/wrong', outcome.wrong, '', '0', (0,), None)


def _aimed(outcome: Outcome) -> bool:
  return outcome.kind not in ('python', 'empty')


def _cells(outcome: Outcome) -> list[str]:
  show = lambda pair: '{:.0f} ({:.0f} to {:.0f})'.format(pair[0], *pair[1])
  rates = list(outcome.rates.values())
  met = all(machine.meets(value, _AIM) for value, _ in rates)
  return [
    outcome.kind,
    *map(show, rates),
    *(f'{each:.1f}' for each in outcome.latency),
    _AIM if _aimed(outcome) else '',
    ('met' if met else 'missed') if _aimed(outcome) else '',
  ]


def write(outcomes: Sequence[Outcome], load: float) -> None:
  """Rewrites the table, with what has to be known to read it."""
  header = (
    'kind', *(f'runs/min, {workers} at once' for workers in _WORKERS),
    'p50, ms', 'p90, ms', 'p99, ms', 'aim', '',
  )  # fmt: skip
  total = sum(each.wrong for each in outcomes)
  about = (
    'Written by `python -m benchmarks.sandbox`, whose docstring says what is'
    ' measured. Rates are\nmedians over rounds with 95 % intervals.'
  )
  facts = [
    f'Python {sys.version.split()[0]}; {isolation.find().promise}',
    f'runs that did not do what they should: {total}',
  ]
  table = runs.markdown(header, [_cells(each) for each in outcomes])
  machine.write(TABLE, about, table, load, facts)


def main(argv: list[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  quick, load, outcomes = options.quick(), os.getloadavg()[0], []
  with kinds() as made:
    for kind, (run, wait) in made.items():
      outcomes.append(measure(kind, run, wait, quick))
      say(outcomes[-1])
  if not quick:
    write(outcomes, load)
  if any(each.wrong for each in outcomes):
    sys.exit('runs did not do what they should')


if __name__ == '__main__':
  options.start(main)
