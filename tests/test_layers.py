"""The direction of imports, read from the syntax trees of all modules.

A violation is named as `file:line: statement`. To move a border, edit a table.
"""

import ast
import pathlib
import re
from collections.abc import Iterator, Mapping

import pytest

ROOT = pathlib.Path(__file__).parents[1]
TREES = ('arl', 'experiments', 'launch', 'benchmarks')

# Module or package -> what of this project it may import. The longest entry
# that fits a module counts. A package may always import itself.
ARRAYS = (
  'arl.levels',
  'arl.columns',
  'arl.types',
  'arl.names',
  'arl.ranges',
  'arl.kinds',
)
HOST = ('arl.episode', 'arl.names', 'arl.kinds')
MAY_IMPORT: dict[str, tuple[str, ...]] = {
  'arl': ('arl.levels', 'arl.methods', 'arl.types'),
  'arl.levels': (),
  'arl.columns': (),
  'arl.command': (),
  'arl.names': (),
  'arl.ranges': (),
  'arl.kinds': (),
  'arl.episode': (),
  'arl.types': ('arl.levels',),
  'arl.kernels': ARRAYS,
  'arl.methods': (*ARRAYS, 'arl.kernels'),
  'arl.models': ARRAYS,
  'arl.models.convert': (*ARRAYS, 'arl.models', 'arl.command'),
  'arl.sandbox': HOST,
  'arl.rewards': (*HOST, 'arl.sandbox'),
  'arl.envs': (*HOST, 'arl.sandbox', 'arl.rewards'),
  'arl.prompts': (*HOST, 'arl.ranges', 'arl.envs', 'arl.rewards'),
  'arl.rollout': (*HOST, 'arl.envs', 'arl.rewards'),
  'arl.rollout.pack': (
    *HOST,
    'arl.columns',
    'arl.levels',
    'arl.types',
    'arl.rollout',
  ),
  'arl.rollout.local': (*HOST, 'arl.models', 'arl.rollout'),
  'arl.evaluate': ('arl.episode',),
  'arl.report': ('arl.episode',),
  'arl.train': ('arl',),
  'experiments': (
    'experiments.common',
    'experiments.quickstart',
    'experiments.quickstart_sft',
    'experiments.recipes',
    'experiments.worlds',
  ),
  'experiments.results': ('arl', 'experiments'),
  'experiments.studies': ('arl', 'experiments'),
  'experiments.agents': (),
  'launch': ('arl', 'experiments'),
  'benchmarks': ('arl', 'experiments'),
}

# Module or package -> libraries that nothing in it may import.
DEVICE = ('jax', 'jaxlib', 'flax', 'optax', 'orbax', 'chex')
NO_LIBRARY: dict[str, tuple[str, ...]] = {
  'arl.names': DEVICE,
  'arl.episode': DEVICE,
  'arl.envs': DEVICE,
  'arl.rewards': DEVICE,
  'arl.sandbox': DEVICE,
  'arl.evaluate': DEVICE,
  'arl.report': DEVICE,
}
# Package -> the only libraries that it may import; None for any. The longest
# entry that fits a module counts.
ONLY_LIBRARY: dict[str, tuple[str, ...] | None] = {
  '': None,
  'experiments': ('collections', 'difflib', 'ml_collections'),
  'experiments.results': None,
  'experiments.studies': None,
  'experiments.agents': ('asyncio', 'json', 're', 'sys', 'openai'),
}
# Library -> the only modules and packages that may import it.
ONLY_IN = {
  'torch': ('benchmarks.sides', 'launch.sglang_cpu'),
  'sglang': ('launch.sglang_cpu',),
  'transformers': (
    'arl.models',
    'arl.rollout.chat',
    'benchmarks.sides',
    'launch',
  ),
}
# Package -> names that do not occur in it.
NO_NAME = {'arl.kernels': ('Batch',)}
# What no line may hold; a default belongs into the configuration. The config of
# a published checkpoint is not ours: it leaves keys out.
NO_TEXT = re.compile(r'\bconfig\.get\(')
FOREIGN_CONFIG = ('arl.models.hf_config',)
NO_FILE = ('utils.py',)


def _within(name: str, prefix: str) -> bool:
  """Whether a dotted name is `prefix` or lies in it; '' holds everything."""
  return not prefix or name == prefix or name.startswith(prefix + '.')


def _entry(table: Mapping[str, object], module: str) -> str:
  return max((k for k in table if _within(module, k)), key=len)


def _module(path: pathlib.Path) -> str:
  parts = path.with_suffix('').parts
  return '.'.join(parts[:-1] if parts[-1] == '__init__' else parts)


def _imports(
  tree: ast.Module, path: pathlib.Path
) -> Iterator[tuple[ast.stmt, str]]:
  """(statement, dotted name) of every import, wherever it stands."""
  for node in ast.walk(tree):
    if isinstance(node, ast.Import):
      for alias in node.names:
        yield node, alias.name
    elif isinstance(node, ast.ImportFrom):
      home = path.parts[: len(path.parts) - node.level] if node.level else ()
      base = '.'.join([*home, *filter(None, [node.module])])
      for alias in node.names:
        yield node, f'{base}.{alias.name}'


def _inside_allowed(module: str, name: str) -> bool:
  entry = _entry(MAY_IMPORT, module)
  allowed = (*MAY_IMPORT[entry], *(() if entry == 'arl' else (entry,)))
  return any(_within(name, each) for each in allowed)


def _library_allowed(module: str, name: str) -> bool:
  library = name.partition('.')[0]
  for home, banned in NO_LIBRARY.items():
    if _within(module, home) and library in banned:
      return False
  only = ONLY_LIBRARY[_entry(ONLY_LIBRARY, module)]
  if only is not None and library not in only:
    return False
  homes = ONLY_IN.get(library, ('',))
  return any(_within(module, home) for home in homes)


def _import_allowed(module: str, name: str) -> bool:
  if name.partition('.')[0] in TREES:
    return _inside_allowed(module, name)
  return _library_allowed(module, name)


def _banned_names(tree: ast.Module, module: str) -> Iterator[tuple[int, str]]:
  for home, banned in NO_NAME.items():
    for node in ast.walk(tree):
      name = getattr(node, 'id', getattr(node, 'attr', None))
      if _within(module, home) and name in banned:
        yield getattr(node, 'lineno', 0), f'{name} is not known here'


def _of_file(root: pathlib.Path, path: pathlib.Path) -> Iterator[str]:
  module, text = _module(path), (root / path).read_text()
  tree = ast.parse(text)
  if path.name in NO_FILE:
    yield f'{path}:1: a module needs a name that says what it is for'
  for node, name in _imports(tree, path):
    if not _import_allowed(module, name):
      yield f'{path}:{node.lineno}: {ast.unparse(node)}'
  for line, what in _banned_names(tree, module):
    yield f'{path}:{line}: {what}'
  for line, content in enumerate(text.splitlines(), 1):
    if NO_TEXT.search(content) and module not in FOREIGN_CONFIG:
      yield f'{path}:{line}: {content.strip()}'


def violations(root: pathlib.Path) -> list[str]:
  """Every broken rule below a root, as `file:line: what`."""
  paths = [p for tree in TREES for p in (root / tree).rglob('*.py')]
  return [
    found
    for path in sorted(paths)
    for found in dict.fromkeys(_of_file(root, path.relative_to(root)))
  ]


def test_imports_point_one_way():
  assert '\n'.join(violations(ROOT)) == ''


def test_every_package_has_its_row():
  packages = {p.parent.name for p in (ROOT / 'arl').glob('*/__init__.py')}
  assert {f'arl.{name}' for name in packages} <= MAY_IMPORT.keys()


@pytest.mark.parametrize(
  'module', ['arl.kernels.ratios', 'arl.models.heads', 'arl.rollout.pack']
)
def test_the_front_door_is_for_others(module):
  assert not _import_allowed(module, 'arl')
  assert not _import_allowed(module, 'arl.Batch')


PLANTED = {
  'arl/kernels/bad.py': (
    ('from arl.methods import compose', 1),
    ('from arl import train', 1),
    ('from arl import types\n\nx = types.Batch', 3),
    ('def f():\n  import torch', 2),
  ),
  'arl/levels.py': (('from arl import types', 1),),
  'arl/types.py': (('from arl.models import functional', 1),),
  'arl/methods/bad.py': (('import arl.models.heads', 1),),
  'arl/models/bad.py': (('from arl.kernels import ratios', 1),),
  'arl/envs/bad.py': (
    ('import os\nimport jax.numpy as jnp', 2),
    ('from arl.rollout import engine', 1),
    ('from ..rollout import engine', 1),
  ),
  'arl/rewards/bad.py': (('from flax import nnx', 1),),
  'arl/sandbox/bad.py': (('import jax', 1),),
  'arl/rollout/engine.py': (
    ('from arl import levels', 1),
    ('from arl import types', 1),
    ('from arl.models import heads', 1),
    ('import transformers', 1),
  ),
  'arl/rollout/pack.py': (('from arl.models import heads', 1),),
  'arl/evaluate/bad.py': (
    ('import jax', 1),
    ('from arl.train import metrics', 1),
  ),
  'arl/report/bad.py': (('from arl.evaluate import summary', 1),),
  'arl/train/bad.py': (
    ('from launch import train', 1),
    ('x = config.get("lr", 1)', 1),
  ),
  'experiments/bad.py': (
    ('import functools', 1),
    ('from arl.methods import grpo', 1),
    ('config.get("lr")', 1),
  ),
  'benchmarks/bad.py': (('import torch', 1),),
  'launch/bad.py': (('import torch', 1), ('config.get("lr")', 1)),
  'arl/prompts/utils.py': (('x = 1', 1),),
}


@pytest.mark.parametrize(
  'path, text, line',
  [(p, text, line) for p, each in PLANTED.items() for text, line in each],
)
def test_a_planted_violation_is_named(tmp_path, path, text, line):
  file = tmp_path / path
  file.parent.mkdir(parents=True)
  file.write_text(text + '\n')
  (found,) = violations(tmp_path)
  assert found.startswith(f'{path}:{line}: ')


ALLOWED = {
  'arl/kernels/good.py': 'import jax\nfrom arl import levels\n',
  'arl/methods/good.py': 'from arl.kernels import ratios\n',
  'arl/rollout/pack.py': 'from arl import episode, levels, types\n',
  'arl/rollout/local.py': 'from arl.models import heads\n',
  'arl/rollout/chat.py': 'import transformers\n',
  'arl/train/good.py': 'from arl.models import heads\nimport jax\n',
  'experiments/good.py': (
    'import ml_collections\nfrom experiments import common\n'
  ),
  'launch/good.py': 'from arl.train import loop\n',
  'benchmarks/sides/good.py': 'import torch\nfrom benchmarks import cases\n',
  'arl/models/hf_config.py': 'x = config.get("rope")\n',
}


def test_what_is_allowed_is_not_named(tmp_path):
  for path, text in ALLOWED.items():
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text(text)
  assert violations(tmp_path) == []
