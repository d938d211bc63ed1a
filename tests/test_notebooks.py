"""Every notebook runs from top to bottom, in a folder without the project."""

import configparser
import pathlib

import nbclient
import nbformat
import pytest

FOLDER = pathlib.Path(__file__).parents[1] / 'notebooks'
NOTEBOOKS = sorted(FOLDER.glob('*.ipynb'))


def test_there_are_notebooks():
  assert NOTEBOOKS


@pytest.mark.parametrize('path', NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path, tmp_path, monkeypatch):
  monkeypatch.delenv('XLA_FLAGS', raising=False)
  notebook = nbformat.read(path, as_version=4)
  nbformat.validate(notebook)
  client = nbclient.NotebookClient(
    notebook, timeout=300, resources={'metadata': {'path': str(tmp_path)}}
  )
  client.execute()
  counts = [
    cell.execution_count for cell in notebook.cells if 'outputs' in cell
  ]
  assert counts == list(range(1, len(counts) + 1))


@pytest.mark.parametrize('path', NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_kept_without_outputs(path):
  cells = nbformat.read(path, as_version=4).cells
  assert not any(cell.get('outputs') for cell in cells)


@pytest.mark.parametrize('path', NOTEBOOKS, ids=lambda path: path.stem)
def test_it_opens_and_installs_from_where_the_project_lives(path):
  config = configparser.ConfigParser()
  config.read(FOLDER.parent / 'setup.cfg')
  url = config['metadata']['url']
  title, install = nbformat.read(path, as_version=4).cells[:2]
  owner = url.removeprefix('https://github.com/')
  opens = f'https://colab.research.google.com/github/{owner}/blob/main/'
  assert f'({opens}notebooks/{path.name})' in title.source
  assert f'%pip install -q git+{url}' in install.source.splitlines()[-1]
