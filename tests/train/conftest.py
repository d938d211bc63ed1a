import pytest
import tiny


@pytest.fixture(scope='session')
def model_folder(tmp_path_factory):
  """The folder of a tiny policy."""
  return tiny.write_model(tmp_path_factory.mktemp('models') / 'tiny')
