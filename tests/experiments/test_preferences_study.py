"""Configs and the study of preferences: what they set, what they count."""

import numpy as np
import pytest
import tiny

from arl.train import build
from experiments import preferences
from experiments.studies import preferences as study
from experiments.studies import runs


@pytest.mark.parametrize('method', preferences.PREFERRED)
def test_every_method_runs_on_rollouts(method):
  config = preferences.get_config(f'method={method}')
  build.check(config)
  assert config.method.to_dict() == preferences.PREFERRED[method]
  alone = {'pair_wins', 'pair_stepped'}  # these compare a whole group
  assert (config.prompts.select == 'select.varied') == (method in alone)


@pytest.mark.parametrize('quick', ['', ',quick'])
def test_spin_compares_by_source(quick):
  config, dpo = (
    preferences.get_config(f'method={method}{quick}')
    for method in ('spin', 'dpo')
  )
  assert config.method == dpo.method
  assert config.rollout.strategy == 'demonstrations.beside'
  assert config.prompts.select == 'pairs.data_against_policy'
  assert config.prompts.samples == 2
  episodes = [c.prompts.batch * c.prompts.samples for c in (config, dpo)]
  assert episodes[0] == episodes[1]


def test_the_study_is_about_known_methods():
  known = preferences.PREFERRED.keys() | {study.REWARDS}
  assert {*study.QUICK, *study.DRAWN} <= known


def test_an_unknown_method_is_named():
  with pytest.raises(ValueError, match='method=sum: known are dpo, '):
    preferences.get_config('method=sum')
  with pytest.raises(ValueError, match='method=dp0: did you mean dpo?'):
    preferences.get_config('method=dp0')


def test_shares_of_pairs():
  assert study._share([1.0, 2.0, 3.0], [0.0, 2.0, 4.0]) == 0.5
  assert study._share([1.0], [0.0]) == 1.0


def test_a_policy_is_even_with_itself(tmp_path, monkeypatch):
  """At the reference every implicit reward is 0, which prefers nothing."""
  run = runs.Run('', '', tmp_path)
  folder = tiny.write_model(tmp_path / 'final')
  monkeypatch.setattr(
    study.preferences, 'get_config', lambda arg: tiny.config(folder)
  )
  found = study.accuracy(run, run, quick=True)
  assert found['pairs'] > 0
  assert found['implicit'] == 0.5
  assert found['likelihood'] == found['likelihood_before']
  assert np.isfinite(found['likelihood'])
