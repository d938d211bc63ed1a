"""What a number was measured on, and whether it is what was aimed at."""

import os
import pathlib
import platform
from collections.abc import Mapping, Sequence


def cpu() -> str:
  """The name of the processor, as Linux tells it."""
  for line in pathlib.Path('/proc/cpuinfo').read_text().splitlines():
    if line.startswith('model name'):
      return line.partition(':')[2].strip()
  return platform.processor()


def meets(value: float, aim: str) -> bool:
  """Whether a number is as an aim like '>= 5' wants it."""
  sign, bound = aim.split()
  return value >= float(bound) if sign == '>=' else value <= float(bound)


def write(
  path: pathlib.Path,
  about: str,
  table: str,
  load: float,
  facts: Sequence[str],
  where: str = f'{os.cpu_count()} cores',
) -> None:
  """Rewrites a page of results.

  Args:
    path: of the page.
    about: what was measured and how, in lines.
    table: in Markdown, and what follows it.
    load: of the machine at the start.
    facts: what else has to be known to read the table, a line each.
    where: on which part of the machine.
  """
  on = f'{cpu()}, {where}, load {load:.2f} at the start'
  listed = '\n'.join(f'- {fact}' for fact in (on, *facts))
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(f'{about}\n\n{listed}\n\n{table}', encoding='utf-8')


def used(versions: Mapping[str, Mapping[str, str]]) -> list[str]:
  """The packages of each side, a line each."""
  return [
    f'{side}: ' + ', '.join(f'{n} {v}' for n, v in packages.items())
    for side, packages in versions.items()
  ]
