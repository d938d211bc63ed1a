"""What each baseline is claimed to reach, and whether a rerun agrees.

A claim is of what the baseline's file says, which a hash stands for, and of
some seeds. As long as both are the same it stands, and a rerun has to reach a
success within its interval; where the file has changed, what is measured is a
new claim. To give one up, take it out of claims.json.
"""

import hashlib
import json
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from experiments.baselines import budget
from experiments.studies import baselines, runs

FILE = runs.RESULTS / 'claims.json'
HOLDS, NEW, BROKEN = 'holds', 'new', 'broken'
_TOLD = re.compile(r'^Reaches.*$', re.MULTILINE)


class Claim(NamedTuple):
  """What a baseline reaches.

  Attributes:
    success: held out, sampled: the interquartile mean over seeds.
    interval: 95 % around it.
    seconds: of a run, the mean.
    seeds: of the runs.
    of: what its file said, as a hash.
    on: processor and packages.
  """

  success: float
  interval: tuple[float, float]
  seconds: float
  seeds: tuple[int, ...]
  of: str
  on: str


def read(path: pathlib.Path) -> dict[str, Claim]:
  """The claims of a file, by baseline; none where there is no file."""
  if not path.exists():
    return {}
  told = json.loads(path.read_text('utf-8'))
  return {
    name: Claim(
      **{
        key: tuple(value) if isinstance(value, list) else value
        for key, value in claim.items()
      }
    )
    for name, claim in told.items()
  }


def write(claims: Mapping[str, Claim], path: pathlib.Path) -> None:
  """Rewrites the file, in the order of the families."""
  told = {
    name: claims[name]._asdict() for name in baselines.NAMES if name in claims
  }
  text = json.dumps(told, indent=1) + '\n'
  path.write_text(text, encoding='utf-8')


def digest(name: str) -> str:
  """Stands for what the file of a baseline says, and for the budget."""
  module = baselines.module(name)
  said = [module.METHOD, module.SETTINGS, budget.SETTINGS]
  text = json.dumps(said, sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()[:12]


def verdict(old: Claim | None, new: Claim) -> str:
  """HOLDS or BROKEN, or NEW where the old one is of something else."""
  if old is None or (old.of, old.seeds) != (new.of, new.seeds):
    return NEW
  low, high = old.interval
  return HOLDS if low <= new.success <= high else BROKEN


def told(claim: Claim | None) -> str:
  """A claim as the line that the file of a baseline has in its docstring."""
  if claim is None:
    return 'Reaches: not run yet.'
  low, high = claim.interval
  return (
    f'Reaches {claim.success:.3f} ({low:.3f} to {high:.3f}) in'
    f' {claim.seconds:.0f} seconds a run.'
  )


def rewritten(text: str, claim: Claim | None) -> str:
  """The text of a baseline's file with that line as it is now.

  Raises:
    ValueError: there is no such line.
  """
  if not _TOLD.search(text):
    raise ValueError(
      f"claims: no line 'Reaches' in the file that begins {text[:60]!r}; give"
      ' its docstring one.'
    )
  return _TOLD.sub(told(claim), text, count=1)


def tell(claims: Mapping[str, Claim], names: Sequence[str]) -> None:
  """Rewrites the line in the files of baselines."""
  for name in names:
    path = pathlib.Path(str(baselines.module(name).__file__))
    old = path.read_text('utf-8')
    new = rewritten(old, claims.get(name))
    if new != old:
      path.write_text(new, encoding='utf-8')


def measured_on(versions: Mapping[str, str]) -> str:
  """Processor, cores and packages in one line."""
  packages = ', '.join(f'{name} {number}' for name, number in versions.items())
  return f'{_processor()}, {os.cpu_count()} cores; {packages}'


def _processor() -> str:
  listed = pathlib.Path('/proc/cpuinfo')
  lines = listed.read_text().splitlines() if listed.exists() else []
  named = [line for line in lines if line.startswith('model name')]
  return named[0].partition(':')[2].strip() if named else 'unknown processor'
