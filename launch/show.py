"""Prints what finished runs achieved: python -m launch.show WORKDIR...

It reads each folder's results.json.
"""

import json
import pathlib
from typing import Any

import rich.box
import rich.console
import rich.table
from absl import app

from arl import command


def console() -> rich.console.Console:
  """The standard output; into a file or a pipe, tables are not squeezed."""
  made = rich.console.Console(highlight=False, soft_wrap=True)
  if not made.is_terminal:
    made.width = 120
  return made


def estimate(result: dict[str, float]) -> str:
  """A success rate with its interval: '0.640 [0.597, 0.680]'."""
  low, high = result['success_low'], result['success_high']
  return f'{result["success"]:.3f} [{low:.3f}, {high:.3f}]'


def read(folder: pathlib.Path) -> dict[str, Any]:
  """The results of a run.

  Raises:
    FileNotFoundError: it is not finished.
  """
  path = folder / 'results.json'
  if not path.exists():
    raise FileNotFoundError(
      f'{folder} has no results.json, which is written when a run is finished;'
      ' run the command that began it again to finish it.'
    )
  return json.loads(path.read_text(encoding='utf-8'))


def table(runs: dict[str, dict[str, Any]]) -> rich.table.Table:
  """The results of runs, by folder, a row for each way of choosing tokens."""
  made = rich.table.Table(box=rich.box.SIMPLE)
  for name in ('run', 'tokens', 'before', 'after', 'seconds'):
    made.add_column(name, justify='right' if name == 'seconds' else 'left')
  for folder, results in runs.items():
    for way, after in results['after'].items():
      before = estimate(results['before'][way])
      wall = f'{results["wall_seconds"]:.0f}'
      made.add_row(folder, way, before, estimate(after), wall)
  return made


def main(argv: list[str]) -> None:
  folders = [pathlib.Path(name) for name in argv[1:]]
  if not folders:
    raise app.UsageError('name the workdir of at least one run')
  runs = {str(folder): read(folder) for folder in folders}
  out = console()
  out.print('success on held-out tasks, with 95 % intervals')
  out.print(table(runs))
  for folder in folders:
    out.print(f'report: {folder.absolute()}/report.html', markup=False)


if __name__ == '__main__':
  command.run(main)
