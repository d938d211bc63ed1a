import jax
import pytest
import tiny
from jax.experimental.compilation_cache import compilation_cache


@pytest.fixture(scope='session')
def model_folder(tmp_path_factory):
  """The folder of a tiny policy."""
  return tiny.write_model(tmp_path_factory.mktemp('models') / 'tiny')


@pytest.fixture(scope='session')
def compiled_once(tmp_path_factory):
  """Runs of one shape in one session compile once; gives the folder."""
  folder = tmp_path_factory.mktemp('compiled')
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
