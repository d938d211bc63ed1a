"""The whole suite runs with strict arrays and eight fake CPU devices."""

import os

os.environ.setdefault('JAX_PLATFORMS', 'cpu')
os.environ['XLA_FLAGS'] = (
  os.environ.get('XLA_FLAGS', '')
  + ' --xla_force_host_platform_device_count=8'
  + ' --xla_backend_optimization_level=0'  # most of the time is compilation
)

import hypothesis
import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

jax.config.update('jax_numpy_rank_promotion', 'raise')
jax.config.update('jax_numpy_dtype_promotion', 'strict')


def pytest_addoption(parser):
  parser.addoption(
    '--slow', action='store_true', help='also run the tests marked slow'
  )
  parser.addoption(
    '--explore',
    action='store_true',
    help='property tests try other examples in each run',
  )


def pytest_configure(config):
  # A change is judged by examples that it did not draw itself.
  hypothesis.settings.register_profile('repeatable', derandomize=True)
  if not config.getoption('--explore'):
    hypothesis.settings.load_profile('repeatable')


def pytest_collection_modifyitems(config, items):
  if config.getoption('--slow'):
    return
  skip = pytest.mark.skip(reason='slow: run with --slow')
  for item in items:
    if 'slow' in item.keywords:
      item.add_marker(skip)


@pytest.fixture(scope='session', autouse=True)
def commands_share_what_they_compile(tmp_path_factory):
  """Commands that tests run keep nothing at home.

  Here it changes nothing: JAX has read its environment.
  """
  folder = _together(tmp_path_factory) / 'commands'
  os.environ.setdefault('JAX_COMPILATION_CACHE_DIR', str(folder))


def _together(tmp_path_factory):
  """A folder that all processes of the session share."""
  base = tmp_path_factory.getbasetemp()
  return base.parent if 'PYTEST_XDIST_WORKER' in os.environ else base


@pytest.fixture(scope='module')
def counted():
  """Counts compilations from nothing: past 8192 entries jax counts wrongly."""
  jax.clear_caches()


@pytest.fixture
def x64():
  """Runs a test in float64."""
  with jax.enable_x64(True):
    yield


@pytest.fixture(scope='session')
def compiled_once(tmp_path_factory):
  """What is compiled twice in a session is compiled once; gives the folder.

  All processes of the session share it.
  """
  folder = _together(tmp_path_factory) / 'compiled'
  folder.mkdir(exist_ok=True)
  settings = {
    'jax_compilation_cache_dir': str(folder),
    'jax_persistent_cache_min_compile_time_secs': 0.0,
    'jax_persistent_cache_min_entry_size_bytes': -1,
  }
  before = {name: getattr(jax.config, name) for name in settings}
  for name, value in settings.items():
    jax.config.update(name, value)
  yield folder
  for name, value in before.items():
    jax.config.update(name, value)
  compilation_cache.reset_cache()
