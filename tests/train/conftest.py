import pytest
import tiny


@pytest.fixture(scope='session')
def model_folder(tmp_path_factory):
  """The folder of a tiny policy."""
  return tiny.write_model(tmp_path_factory.mktemp('models') / 'tiny')


@pytest.fixture(scope='module', autouse=True)
def counted_anew(counted):
  """Each file counts compilations from nothing."""
  del counted
