"""A policy and its reward model in one loop: who learns from what."""

import json

import ml_collections
import numpy as np
import pytest
import tiny

from arl import episode
from arl.models import hf
from arl.train import claim, corlhf, export, metrics, reward_models
from experiments import corlhf as experiment

pytestmark = pytest.mark.usefixtures('compiled_once')
RANKING = {
  'margin': 0.0, 'centering': 0.01, 'lr': 0.01, 'pairs': 4, 'replayed': 8,
  'held_out': 2, 'gate': 0.02,
}  # fmt: skip


def _config(folder, **ranking):
  config = tiny.config(
    folder, steps=3, eval={'every': 9, 'tasks': 1, 'final_tasks': 4}
  )
  config.updates.per_batch = 1
  config.ranking = {**RANKING, **ranking}
  return config


def test_a_workdir_has_one_run_at_a_time(model_folder, tmp_path):
  with (
    claim.held(tmp_path),
    pytest.raises(ValueError, match='another run is writing there'),
  ):
    corlhf.train(_config(model_folder), str(tmp_path))


def test_both_learn_anew_whatever_is_there(model_folder, tmp_path):
  (tmp_path / metrics.FILE).write_text('{"step": 7, "wall": 1.0}\n')
  corlhf.train(_config(model_folder), str(tmp_path))
  rows = tiny.rows(tmp_path)
  assert len(rows) == 3
  for row in rows:
    assert 0 <= row['ranking/held_out'] <= 1
    assert np.isfinite(row['loss/policy']) and np.isfinite(row['reward/mean'])
  # The first pairs are held out; it is asked after it was corrected.
  assert rows[0]['reward/mean'] == 0 != rows[-1]['reward/mean']
  before, after = hf.load(model_folder), hf.load(tmp_path / 'final')
  assert np.any(before.params['norm']['scale'] != after.params['norm']['scale'])
  judge = reward_models.outcome(path=str(tmp_path / 'final'))
  assert np.ptp(judge(tiny.episodes(1, 4, longest=16))) > 0
  assert export.critic_folder(tmp_path / 'final').name == export.CRITIC
  told = json.loads((tmp_path / 'results.json').read_text())
  assert told.keys() == {'before', 'after'}


@pytest.fixture(scope='module')
def model(model_folder):
  _, policy, model = corlhf.sides(_config(model_folder))
  assert policy.config.method.name == 'grpo.dapo'
  assert model.config.method.name == 'reward.bt'
  return model


def _pairs(count):
  """Groups of a good and a bad episode."""
  made = []
  for one, other in zip(*[iter(tiny.episodes(count, 2, longest=16))] * 2):
    good, bad = ([0.0] * (len(e.tokens) - 1) + [r] for e, r in (
      (one, 1.0), (other, 0.0)))  # fmt: skip
    members = [
      one._replace(rewards=np.array(good, np.float32)),
      other._replace(rewards=np.array(bad, np.float32)),
    ]
    made.append(episode.Group(one.task, members))
  return made


def _correct(model, monkeypatch, at, pools):
  """What becomes of a model whose accuracy is now `at`."""
  learnt = []

  def update(side, groups, step):
    learnt.extend(groups)
    return side._replace(now={'x': side.now['x'] + 1}), {}

  monkeypatch.setattr(corlhf, 'update', update)
  monkeypatch.setattr(corlhf, 'accuracy', lambda *_: at)
  side = model._replace(now={'x': np.zeros(())})
  block = ml_collections.ConfigDict(RANKING)
  made = corlhf.correct(None, side, pools, _pairs(6), 7, block)
  return *made, learnt


def test_pairs_are_held_out_learnt_and_replayed(model, monkeypatch):
  side, pools, seen, learnt = _correct(
    model, monkeypatch, 0.75, corlhf.Pools([], [], 0.5)
  )
  assert side.now['x'] == 1 and seen['ranking/undone'] == 0
  assert pools.best == 0.75
  ids = lambda groups: [group.episodes[0].task.id for group in groups]
  assert ids(pools.held) == ['task/0@7', 'task/1@7']
  assert ids(learnt) == [f'task/{i}@7' for i in (2, 3, 4, 5)]
  assert ids(pools.kept) == ids(learnt)
  old = [g._replace(task=g.task) for g in _pairs(8)]
  _, pools, _, learnt = _correct(
    model, monkeypatch, 0.75, corlhf.Pools(pools.held, old, 0.5)
  )
  # Half of them are fresh; what is kept is the latest.
  assert [i.endswith('@7') for i in ids(learnt)] == [True, True, False, False]
  assert len(pools.held) == 2 and len(pools.kept) == RANKING['replayed']
  assert ids(pools.kept)[-6:] == [f'task/{i}@7' for i in range(6)]


def test_an_update_that_does_harm_is_undone(model, monkeypatch):
  side, pools, seen, _ = _correct(
    model, monkeypatch, 0.47, corlhf.Pools([], [], 0.5)
  )
  assert side.now['x'] == 0 and seen['ranking/undone'] == 1
  assert pools.best == 0.5


def test_episodes_earn_what_they_are_given_and_nothing_else():
  groups = corlhf.rewarded(_pairs(2), [1.0, -2.0, 3.0, 0.5])
  flat = [one for group in groups for one in group.episodes]
  assert [episode.total_reward(one) for one in flat] == [1.0, -2.0, 3.0, 0.5]
  for one in flat:
    assert one.rewards[np.flatnonzero(one.mask)[-1]] != 0


def test_settings_that_cannot_work(model_folder):
  with pytest.raises(ValueError, match='ranking.pairs is 1'):
    corlhf.sides(_config(model_folder, pairs=1))
  config = experiment.get_config(f'model={model_folder},quick')
  assert config.ranking.pairs == 4
  config.env = {'name': 'tiny.letters'}
  config.rollout.update(max_turns=2, turn_tokens=6, context=24)
  corlhf.sides(config)
  assert experiment.get_config().ranking.pairs == 32
