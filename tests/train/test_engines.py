"""What a config says of its sampler, refused before anything is built."""

import pytest
import tiny

from arl.train import build, checks, engines, loading

URL = 'http://127.0.0.1:1'


@pytest.fixture
def config(tmp_path):
  made = tiny.config(tiny.write_model(tmp_path / 'model'))
  made.engine.update(urls=URL, folder=str(tmp_path / 'weights'))
  return made


def test_servers_have_addresses_a_folder_and_their_own_precision(config):
  checks.check_engine(config)
  for key, value, message in (
    ('urls', f'{URL},localhost:3', "urls holds 'localhost:3'; give the addre"),
    ('folder', '', "engine.folder is ''; weights reach the servers through"),
    ('dtype', 'bfloat16', "dtype is 'bfloat16', but a server has a precision"),
    ('cache', 'int8', "cache is 'int8', but a server has a precision of its"),
    ('cache', 'int4', "engine.cache is 'int4'; use 'int8', or '' to keep"),
    ('tolerance', 0.0, 'tolerance is 0.0; it is how far'),
  ):
    before = config.engine[key]
    config.engine[key] = value
    with pytest.raises(ValueError, match=message):
      checks.check_engine(config)
    config.engine[key] = before
  config.engine.update(sync='sync.tensors', folder='')
  checks.check_engine(config)
  config.engine.update(urls='', tolerance=0.0)
  checks.check_engine(config)


def test_a_server_that_is_not_there_is_named(config):
  with pytest.raises(RuntimeError, match=URL):
    build.world(config)


def named(config, loaded, tokenizer):
  return config.seed, loaded.sizes, type(tokenizer).__name__


def test_an_engine_of_ones_own_is_made_by_its_function(model_folder):
  block = {'make': 'test_engines.named'}
  config = tiny.config(model_folder, seed=3, engine=block)
  loaded, tokenizer = loading.load_model(config.model, config.seed)
  made = engines.make(config, loaded, tokenizer)
  assert made == (3, loaded.sizes, type(tokenizer).__name__)


@pytest.mark.parametrize(
  'blocks',
  [
    {'engine': {'urls': 'http://127.0.0.1:1', 'sync': 'sync.tensors'}},
    {'engine': {'dtype': 'bfloat16'}},
    {'rollout': {'ahead': 1}},
  ],
)
def test_an_engine_of_ones_own_has_no_settings_of_others(model_folder, blocks):
  config = tiny.config(model_folder, **blocks)
  config.engine.make = 'test_engines.named'
  with pytest.raises(ValueError, match='engine.make names an engine of your'):
    checks.check_engine(config)
