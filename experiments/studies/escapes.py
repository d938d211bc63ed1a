"""Attempts at the sandbox: what each tries, how it ends, and what is left.

  python -m experiments.studies.escapes [--quick]

Every attempt of experiments/studies/attempts runs in a sandbox of its own, and
is judged by what it says and by the world outside: a process, files and sockets
that it may not reach, a secret that may not come out, the time it takes. All
are repeated until there were 500 runs, with --quick once. Then processes,
zombies, control groups, mounts and descriptors are counted. Prints a JSON
object a line and rewrites experiments/results/escapes.md unless --quick. Exits
1 if an attempt got anything.
"""

import collections
import functools
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

from arl.sandbox import isolation
from arl.sandbox import runs as sandbox
from experiments.studies import runs
from experiments.studies.attempts import (
  base,
  forgeries,
  outside,
  resources,
  world,
)

RUNS = 500
_GROUPS = {
  'resources': resources.ATTEMPTS,
  'outside': outside.ATTEMPTS,
  'verdict': forgeries.FORGERIES,
}


class Row(NamedTuple):
  """One run of an attempt.

  Attributes:
    group, name, does: of the attempt.
    end: what ended it.
    seconds: how long it ran.
    found: what it got.
  """

  group: str
  name: str
  does: str
  end: str
  seconds: float
  found: list[str]


def once(aim: world.World, seed: int) -> Iterator[Row]:
  """Each attempt once."""
  start = functools.partial(sandbox.start, limits=base.PATIENT)
  for group, attempts in _GROUPS.items():
    for name, each in attempts.items():
      if isinstance(each, base.Attempt):
        found, outcome = world.attempt(each, aim)
        end = outcome.limit or f'exit status {outcome.code}'
      else:
        found, answer = world.forge(each, start, seed)
        outcome = answer.outcome
        end = (answer.error or 'an answer, a wrong one').partition(':')[0]
        end = outcome.limit or end
      found = found + world.left(aim)
      yield Row(group, name, each.does, end, outcome.seconds, found)


def remains(aim: world.World) -> dict[str, int]:
  """What there is of sandboxes now."""
  left = world.left(aim)
  temporary = pathlib.Path(tempfile.gettempdir())
  mounts = pathlib.Path('/proc/self/mountinfo').read_text()
  return {
    'processes': sum(each.startswith('process') for each in left),
    'zombies': sum(each.startswith('zombie') for each in left),
    'cgroups': sum(each.startswith('/') for each in left),
    'mounts': len(mounts.splitlines()),
    'descriptors': len(os.listdir('/proc/self/fd')),
    'files': sum(1 for _ in temporary.glob('arl-*')),
  }


def _cells(rows: list[Row]) -> list[str]:
  """A line of the table: all runs of one attempt."""
  ends = collections.Counter(row.end for row in rows)
  got = [each for row in rows for each in row.found]
  longest = max(row.seconds for row in rows)
  ended = ', '.join(end for end, _ in ends.most_common())
  first = rows[0]
  return [
    first.group, first.name, first.does, ended, f'{longest:.2f}',
    f'{len(rows)}', '; '.join(got) or 'nothing',
  ]  # fmt: skip


def write(table: dict[str, list[Row]], left: dict[str, int]) -> None:
  """Rewrites the table."""
  path = runs.RESULTS / 'escapes.md'
  header = (
    'aims at', 'attempt', 'what it does', 'ended by', 'seconds at most', 'runs',
    'what it got',
  )  # fmt: skip
  runs.write_table(path, header, [_cells(rows) for rows in table.values()])
  count = sum(map(len, table.values()))
  more = ', '.join(f'{name} {number}' for name, number in left.items())
  limits = base.LIMITS
  text = (
    'Written by `python -m experiments.studies.escapes`, whose docstring says'
    ' what is judged.\n\n'
    f'- {len(table)} attempts, {count} runs; limits of a run:'
    f' {limits.seconds:g} s, {limits.cpu:g} s of CPU, {limits.memory >> 20} MB,'
    f' {limits.processes} processes, {limits.disk >> 20} MB in each folder,'
    f' {limits.inodes} inodes, {limits.output // 1000} kB of output;'
    f' {base.PATIENT.seconds:g} s and {base.PATIENT.cpu:g} s of CPU where no'
    ' attempt should need them\n'
    f'- isolation: {isolation.find().promise}\n'
    f'- more than before all runs: {more}\n\n'
  )
  path.write_text(text + path.read_text('utf-8'), 'utf-8')


def main(argv: list[str]) -> None:
  del argv
  table: dict[str, list[Row]] = {}
  with world.make() as aim:
    before, seed = remains(aim), 0
    while not seed or sum(map(len, table.values())) < RUNS:
      for row in once(aim, seed):
        table.setdefault(f'{row.group}/{row.name}', []).append(row)
      seed += 1
      if runs.quick():
        break
    after = remains(aim)
  left = {name: after[name] - before[name] for name in before}
  for name, rows in table.items():
    got = sum(bool(row.found) for row in rows)
    for row in rows:
      for each in row.found:
        print(f'{name}: {each}', file=sys.stderr)
    runs.line(f'escapes/{name}', got, 'runs', '0', (0,), None)
  for name, number in left.items():
    runs.line(f'escapes/left/{name}', number, '', '0', (0,), None)
  runs.line('escapes/runs', sum(map(len, table.values())), '', '', (0,), None)
  if not runs.quick():
    write(table, left)
  if any(left.values()) or any(
    r.found for rows in table.values() for r in rows
  ):
    sys.exit('an attempt got something, or something is left')


if __name__ == '__main__':
  runs.start(main)
