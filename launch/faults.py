"""Writes the table of known faults: python -m launch.faults.

What each case is lies beside its tests, in tests/faults/known.py; which tests
it has is read off the names of the tests there, without running them. With
--check it only says whether docs/faults.md is up to date, and exits with status
1 if not.
"""

import ast
import importlib.util
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from launch import generated

FOLDER, PAGE = 'tests/faults', 'docs/faults.md'
HEADER = ('', 'fault', 'kind', 'what rules it out', 'tests')
ABOUT = """# Known faults

Made by `python -m launch.faults`. Each row is a fault that was met in the wild,
in code that trains language models by reinforcement, as a small case of its own
numbers, and as what is fuzzed beyond it. One column says which part of the
design makes the whole kind impossible. Where a real server of a case can be
had, `tests/sglang/test_real.py` asks it as well. The numbers are those of a
collection of more cases than these."""
_NAME = re.compile(r'test_(\d+)_\w+')


def cases(root: pathlib.Path) -> dict[int, Any]:
  """The cases of tests/faults/known.py, by number."""
  path = root / FOLDER / 'known.py'
  spec = importlib.util.spec_from_file_location('known', path)
  assert spec and spec.loader
  made = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(made)
  return made.CASES


def tests(root: pathlib.Path) -> dict[int, dict[str, list[str]]]:
  """The tests of each number, by file, in the order in which they stand."""
  found: dict[int, dict[str, list[str]]] = {}
  for path in sorted((root / FOLDER).glob('test_*.py')):
    for name in _tests(ast.parse(path.read_text(encoding='utf-8'))):
      if numbered := _NAME.fullmatch(name):
        files = found.setdefault(int(numbered[1]), {})
        files.setdefault(path.name, []).append(name)
  return found


def _tests(module: ast.Module) -> Iterator[str]:
  for node in module.body:
    if isinstance(node, ast.FunctionDef) and node.name.startswith('test_'):
      yield node.name


def table(root: pathlib.Path) -> str:
  """The page, in Markdown.

  Raises:
    ValueError: a case without a test, or a test of no case.
  """
  known, found = cases(root), tests(root)
  for number in sorted(known.keys() ^ found.keys()):
    lacks = 'a test' if number in known else 'a row in known.py'
    raise ValueError(f'faults: number {number} has not {lacks}; write it.')
  lines = [HEADER, ['---'] * len(HEADER)]
  for number in sorted(known):
    case = known[number]
    files = [
      f'{len(names)} in `{FOLDER}/{name}`'
      for name, names in found[number].items()
    ]
    lines.append((str(number), *case, ', '.join(files)))
  rows = '\n'.join(f'| {" | ".join(cells)} |' for cells in lines)
  return f'{ABOUT}\n\n{rows}\n'


def written(root: pathlib.Path) -> dict[pathlib.Path, str]:
  """What the file should hold."""
  return {root / PAGE: table(root)}


if __name__ == '__main__':
  generated.run(written, 'faults', 'python -m launch.faults')
