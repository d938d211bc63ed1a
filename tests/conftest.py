"""The whole suite runs with strict arrays and eight fake CPU devices."""

import os

os.environ.setdefault('JAX_PLATFORMS', 'cpu')
os.environ['XLA_FLAGS'] = (
  os.environ.get('XLA_FLAGS', '')
  + ' --xla_force_host_platform_device_count=8'
  + ' --xla_backend_optimization_level=0'  # most of the time is compilation
)

import jax
import pytest

jax.config.update('jax_numpy_rank_promotion', 'raise')
jax.config.update('jax_numpy_dtype_promotion', 'strict')


def pytest_addoption(parser):
  parser.addoption(
    '--slow', action='store_true', help='also run the tests marked slow'
  )


def pytest_collection_modifyitems(config, items):
  if config.getoption('--slow'):
    return
  skip = pytest.mark.skip(reason='slow: run with --slow')
  for item in items:
    if 'slow' in item.keywords:
      item.add_marker(skip)


@pytest.fixture
def x64():
  """Runs a test in float64."""
  with jax.enable_x64(True):
    yield
