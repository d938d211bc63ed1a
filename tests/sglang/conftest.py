"""Tests of the real SGLang.

ARL_SGLANG_PYTHON names the Python of an environment that
launch/sglang_cpu/install.sh made; without it these tests are skipped.
"""

import os
import pathlib

import pytest
import real


def pytest_collection_modifyitems(items):
  here = pathlib.Path(__file__).parent
  python = os.environ.get('ARL_SGLANG_PYTHON', '')
  skip = pytest.mark.skip(reason='sglang: set ARL_SGLANG_PYTHON')
  for item in items:
    if here in item.path.parents:
      item.add_marker(pytest.mark.sglang)
      if not python:
        item.add_marker(skip)


@pytest.fixture(scope='session')
def url(tmp_path_factory):
  """One server for most tests."""
  with real.serving('qwen3', tmp_path_factory.mktemp('served')) as url:
    yield url
