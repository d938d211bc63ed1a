"""A mixture of experts is trained through the experts its sampler chose."""

import json

import pytest
import tiny

from arl.models import sizes
from arl.train import loop

SHAPE = sizes.tiny_moe(8)._replace(width=16, layers=1, heads=2, kv_heads=1)


@pytest.fixture(scope='module')
def mixture(tmp_path_factory):
  folder = tmp_path_factory.mktemp('mixture') / 'model'
  return tiny.write_model(folder, shape=SHAPE)


def test_a_run_replays_what_the_engine_chose(mixture, tmp_path, compiled_once):
  del compiled_once
  config = tiny.config(mixture, steps=2, updates={'routing': 'rollout'})
  loop.train(config, str(tmp_path))
  for row in tiny.rows(tmp_path):
    assert row['mismatch/replayed'] == 1
    assert row['mismatch/experts'] == 0  # one program, one router
    assert row['mismatch/max'] < 1e-4
  compiled = json.loads((tmp_path / 'results.json').read_text())['compiles']
  assert compiled['score'] == compiled['step'] == 1


def test_a_strategy_without_samples_has_nothing_to_replay(mixture, tmp_path):
  config = tiny.config(
    mixture,
    updates={'routing': 'rollout'},
    rollout={'strategy': 'demonstrations.noisy'},
    method={'name': 'terms.imitation'},
  )
  with pytest.raises(ValueError, match='do not say which experts their tokens'):
    loop.train(config, str(tmp_path))


def test_a_dense_policy_has_nothing_to_replay(tmp_path):
  folder = tiny.write_model(tmp_path / 'model')
  config = tiny.config(folder, updates={'routing': 'rollout'})
  with pytest.raises(ValueError, match='a llama, has no experts to replay'):
    loop.train(config, str(tmp_path / 'run'))
