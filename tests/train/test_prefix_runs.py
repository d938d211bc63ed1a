"""Runs that compute what sequences share once are the runs that do not."""

import json

import numpy as np
import pytest
import tiny

from arl.train import loop, prefixes

pytestmark = pytest.mark.usefixtures('compiled_once')
PPO = {'name': 'ppo.ppo', 'gamma': 1.0, 'lam': 0.95, 'clip': 0.2}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
  monkeypatch.setattr(prefixes, 'BLOCK', 4)


def configured(folder, kind, **blocks):
  least = {'steps': 2, 'eval': {'every': 9, 'tasks': 1, 'final_tasks': 4}}
  config = tiny.config(folder, **{**least, **blocks})
  config.updates.prefixes = kind
  return config


@pytest.mark.parametrize(
  'blocks',
  [
    {},
    {
      'method': PPO,
      'model': {'critic': 'own', 'logit_chunk': 8},
      'mesh': {'data': 2, 'fsdp': 2},
      'rollout': {'strategy': 'branching.two_answers'},
    },
  ],
  ids=['dapo', 'ppo on a mesh, branching'],
)
def test_a_run_has_the_same_metrics(model_folder, tmp_path, blocks):
  rows = {}
  for kind in (prefixes.OWN, prefixes.SHARED):
    loop.train(configured(model_folder, kind, **blocks), tmp_path / kind)
    rows[kind] = tiny.rows(tmp_path / kind)
  for own, shared in zip(*rows.values(), strict=True):
    assert own.keys() == shared.keys()
    for name, value in own.items():
      np.testing.assert_allclose(
        shared[name], value, rtol=1e-3, atol=1e-5, err_msg=name
      )
  assert rows[prefixes.OWN][0]['train/grad_norm'] > 1e-3


def test_a_run_resumes_and_compiles_little(model_folder, tmp_path):
  whole = tmp_path / 'whole'
  config = configured(model_folder, prefixes.SHARED, steps=4)
  loop.train(config, whole)
  results = json.loads((whole / 'results.json').read_text())
  assert results['compiles']['credit'] == 1
  assert results['compiles']['step'] <= 3
  tiny.cut(whole, tmp_path / 'cut', 2)
  loop.train(config, tmp_path / 'cut')
  assert tiny.rows(whole) == tiny.rows(tmp_path / 'cut')
