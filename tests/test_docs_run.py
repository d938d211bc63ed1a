"""The Python of every page in docs/ runs, top to bottom, as for a reader.

A block that begins with the comment of a path is a file of the reader's, and is
written there; the others run in one process, in a folder without the project.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
_BLOCK = re.compile(r'^```python\n(.*?)^```', re.MULTILINE | re.DOTALL)
_FILE = re.compile(r'# (\w+(?:/\w+)+\.py)\n')
PAGES = [
  path
  for path in sorted((ROOT / 'docs').glob('*.md'))
  if _BLOCK.search(path.read_text(encoding='utf-8'))
]


def test_there_are_pages():
  assert len(PAGES) >= 5


@pytest.mark.parametrize('path', PAGES, ids=lambda path: path.stem)
def test_its_code_runs(path, tmp_path):
  script = []
  for code in _BLOCK.findall(path.read_text(encoding='utf-8')):
    named = _FILE.match(code)
    if named:
      file = tmp_path / named[1]
      file.parent.mkdir(exist_ok=True)
      file.write_text(code, encoding='utf-8')
    else:
      script.append(code)
  (tmp_path / 'page.py').write_text('\n'.join(script), encoding='utf-8')
  paths = os.pathsep.join([str(tmp_path), str(ROOT)])
  env = {**os.environ, 'JAX_PLATFORMS': 'cpu', 'XLA_FLAGS': ''}
  done = subprocess.run(
    [sys.executable, 'page.py'],
    cwd=tmp_path,
    env={**env, 'PYTHONPATH': paths},
    capture_output=True,
    text=True,
    timeout=300,
  )
  assert not done.returncode, done.stderr[-3000:]
