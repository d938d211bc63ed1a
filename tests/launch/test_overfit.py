"""One prompt is learnt by heart where learning works."""

import pytest
import tiny

from arl.train import metrics
from launch import overfit

pytestmark = pytest.mark.usefixtures('compiled_once')


@pytest.fixture(scope='module')
def model_folder(tmp_path_factory):
  return tiny.write_model(tmp_path_factory.mktemp('one') / 'model')


@pytest.fixture
def learn(model_folder, tmp_path):
  """(exit status, folder) of an attempt at a rate."""

  def attempt(rate):
    config = tiny.config(model_folder)
    config.optimizer.update(lr=rate, warmup=0)
    folder = tmp_path / 'run'
    made = overfit.one_prompt(config, task=0, samples=16)
    return overfit.overfit(made, folder), folder

  return attempt


def test_the_tiny_policy_learns_a_prompt(learn, capsys):
  code, folder = learn(0.01)
  rows = metrics.read(folder)
  found = overfit.learnt(rows)
  assert code == 0 and found is not None
  assert rows[0]['train/success'] < overfit.LEARNT
  assert found['train/updates'] <= 50
  assert 'learnt: success' in capsys.readouterr().out


def test_a_policy_that_does_not_move_learns_none(learn, monkeypatch, capsys):
  monkeypatch.setattr(overfit.checklist, 'OVERFIT', 4)
  code, folder = learn(0.0)
  assert code == 1
  assert f'launch.doctor --workdir={folder}' in capsys.readouterr().out


def test_the_config_keeps_all_but_the_number_of_prompts(model_folder):
  config = tiny.config(model_folder)
  made = overfit.one_prompt(config, 3, None)
  assert made.env.to_dict() == {
    'name': 'alone.make', 'task': 3, 'env': {'name': 'tiny.letters'},
  }  # fmt: skip
  assert made.prompts.samples == config.prompts.samples
  assert (made.prompts.batch, made.prompts.size, made.steps) == (1, 1, 50)
  for block in ('method', 'optimizer', 'rollout', 'reward'):
    assert made[block] == config[block]
