"""Compares golden numbers with arl, key by key, in float64.

  python tests/golden/check.py FILE.npz [FILE.json]
  python tests/golden/check.py FILE.json
  python tests/golden/check.py FOLDER

An npz holds the results of verl, or of TRL on pairs and distillation, and the
json beside it their settings, a json alone the worked examples of the methods'
definitions, a folder is a checkpoint with expected outputs. One line a key: the
largest absolute error and ok or MISMATCH. A key that has no home in arl yet is
named as elsewhere, one without a row as unknown. Exits 1 on a mismatch, or if
nothing is known, 2 on wrong usage.

To cover a new method, add a row to `policy_rows`, `preference_rows` or one of
the `worked_*`.
"""

import pathlib
import sys
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

TOLERANCE = 1e-6
ROUNDED = 2e-6  # numbers of six decimals


def error(pairs: Iterable[tuple[Any, Any]]) -> float:
  """The largest absolute difference; of other shapes, infinity."""
  gaps = []
  for ours, theirs in pairs:
    if np.shape(ours) != np.shape(theirs):
      return float('inf')
    gaps.append(np.max(np.abs(ours - theirs)))
  return float(np.max(gaps))


def _report(name: str, error: float, ok: bool) -> bool:
  print(f'{name:40} {error:.1e} {"ok" if ok else "MISMATCH"}')
  return ok


def _tell(errors: dict[str, float], tolerance: float, others: dict) -> int:
  """Prints a line a key and the sum; returns the exit status."""
  failed = 0
  for key, each in errors.items():
    failed += not _report(key, each, each <= tolerance)  # so that nan fails
  for key, why in others.items():
    print(f'{key:40} {why}')
  print(f'{len(errors)} keys compared, {failed} differ.')
  return 1 if failed or not errors else 0


def check_folder(path: pathlib.Path) -> int:
  """Prints a line a comparison of a checkpoint; returns the exit status."""
  import hf_check  # the model is built only if it is asked for

  verdicts = [_report(*each) for each in hf_check.check_folder(path)]
  return 0 if all(verdicts) else 1


def check_arrays(path: pathlib.Path, settings: pathlib.Path) -> int:
  """Prints a line a result of verl or TRL; returns the exit status."""
  import distillation_trl
  import policy_verl
  import preference_trl

  homes: tuple[Any, ...] = (policy_verl,)
  if preference_trl.is_one(path):
    homes = preference_trl, distillation_trl
  errors, unknown = {}, {}
  for home in homes:
    golden = home.load(path, settings)
    known = [key for key in golden.results if home.knows(key)]
    errors |= {key: error(home.pairs(golden, key)) for key in known}
    unknown |= dict.fromkeys(sorted(golden.results), 'unknown')
  others = {key: why for key, why in unknown.items() if key not in errors}
  return _tell(errors, TOLERANCE, others)


def check_worked(path: pathlib.Path) -> int:
  """Prints a line a worked example; returns the exit status."""
  import worked_tables

  numbers = worked_tables.load(path)
  known = [key for key in numbers if key in worked_tables.ROWS]
  errors = {key: error(worked_tables.pairs(numbers, key)) for key in known}
  others = {
    key: 'elsewhere' if key in worked_tables.NOT_HERE else 'unknown'
    for key in sorted(numbers.keys() - set(known))
  }
  return _tell(errors, ROUNDED, others)


def main(argv: list[str]) -> int:
  """Checks the file or the folder that `argv` names; returns the status."""
  if len(argv) not in (2, 3) or not pathlib.Path(argv[1]).exists():
    print(__doc__, file=sys.stderr)
    return 2
  path = pathlib.Path(argv[1])
  if path.is_dir():
    return check_folder(path)
  settings = pathlib.Path(argv[2]) if argv[2:] else path.with_suffix('.json')
  with jax.enable_x64(True):
    if path.suffix == '.json':
      return check_worked(path)
    return check_arrays(path, settings)


if __name__ == '__main__':
  # The worked sequences that all tests share.
  sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
  sys.exit(main(sys.argv))
