"""What each recipe is compared with, read off the tests without running them.

A test that compares recipes holds annotated dicts. Either a key is the name of
a golden number, and its value names recipes; or a key is a recipe, and its
value says what is shown.
"""

import ast
import pathlib
from collections.abc import Collection, Iterator

ROOT = pathlib.Path(__file__).parents[1]
NONE = 'none independent: laws only'
# Who computed the numbers -> the files of tests that compare with them.
SOURCES = {
  'verl': 'tests/golden/policy_rows.py',
  'TRL': 'tests/golden/preference_rows.py',
  'worked example': 'tests/golden/worked_*.py',
  'rlax': 'tests/kernels/test_traces.py',
  'exact gradient': 'tests/test_exact_*.py',
}
_GOLDEN = 'python tests/golden/check.py tests/golden'
# What the word says of each, for readers.
MEANT = (
  (
    'verl',
    'verl 0.9.1, losses, gradients, advantages and returns on shared arrays:'
    f' `{_GOLDEN}/policy_verl_0_9_1.npz`',
  ),
  (
    'worked example',
    'NumPy, from the published formulas, without arl:'
    f' `{_GOLDEN}/worked_policy.json`',
  ),
  ('rlax', "rlax 0.1.9, the kernel of the recipe's credit"),
  (
    'exact gradient',
    "enumeration of a small decision process: what the recipe's expected"
    ' gradient is',
  ),
  (
    'laws only',
    'nothing independent: the recipe only obeys the laws that hold for all,'
    ' such as that nan off the mask changes nothing and that on policy a'
    ' surrogate has the policy gradient',
  ),
)
Found = dict[str, dict[str, list[str]]]


def find(recipes: Collection[str], root: pathlib.Path = ROOT) -> Found:
  """{recipe: {source: keys or sentences}}, sources in their order."""
  found: Found = {name: {} for name in recipes}
  for source, pattern in SOURCES.items():
    for path in sorted(root.glob(pattern)):
      for name, key in _rows(path.read_text(encoding='utf-8'), recipes):
        keys = found[name].setdefault(source, [])
        if key not in keys:
          keys.append(key)
  return found


def short(found: dict[str, list[str]]) -> str:
  """The sources of a recipe."""
  return ', '.join(found) or NONE


def long(found: dict[str, list[str]]) -> str:
  """The sources of a recipe with all that they compare."""
  return (
    '; '.join(f'{source}: {", ".join(keys)}' for source, keys in found.items())
    or NONE
  )


def _rows(text: str, recipes: Collection[str]) -> Iterator[tuple[str, str]]:
  """(recipe, key) of every row of the annotated dicts of a module."""
  module = ast.parse(text)
  definitions = dict(_definitions(module))
  for node in module.body:
    if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict):
      for key, value in zip(node.value.keys, node.value.values):
        if not isinstance(key, ast.Constant):
          continue  # another table, spread
        if key.value in recipes:
          yield key.value, ast.literal_eval(value)
        else:
          for name in _named(value, definitions, set()) & set(recipes):
            yield name, key.value


def _definitions(module: ast.Module) -> Iterator[tuple[str, ast.AST]]:
  """What the names of a module stand for, if it can hold a recipe's name."""
  for node in module.body:
    if isinstance(node, ast.FunctionDef):
      yield node.name, node
    elif isinstance(node, ast.Assign):
      names = (t.id for t in node.targets if isinstance(t, ast.Name))
      yield from ((name, node.value) for name in names)


def _named(node: ast.AST, definitions: dict, seen: set[str]) -> set[str]:
  """The strings in an expression and in what it names, in turn."""
  strings = set()
  for part in ast.walk(node):
    if isinstance(part, ast.Constant) and isinstance(part.value, str):
      strings.add(part.value)
    elif isinstance(part, ast.Name) and part.id in definitions.keys() - seen:
      seen.add(part.id)
      strings |= _named(definitions[part.id], definitions, seen)
  return strings
