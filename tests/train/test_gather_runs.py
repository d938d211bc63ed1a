"""Whole runs that choose, refill and replay, and how they resume."""

import numpy as np
import pytest
import tiny

from arl import episode
from arl.envs import base
from arl.prompts import curricula
from arl.train import carried, checkpoint, loop

pytestmark = pytest.mark.usefixtures('compiled_once')
STEPS, CUT = 4, 3
TIS = {'name': 'offpolicy.tis', 'base': 'grpo.dapo'}
WAYS = {
  'kalman': {
    'prompts': {'choose': {'name': 'estimates.kgps'}, 'least_spread': 0.1},
    'eval': {'crossed': 2},
  },
  'refilled': {
    'method': TIS,
    'prompts': {
      'choose': {'name': 'estimates.mopps'},
      'select': 'select.varied',
      'rounds': 3,
      'max_age': 2,
    },
  },
  'in parts': {
    'method': TIS,
    'rollout': {'budget': 3},
    'prompts': {'max_age': 3, 'in_flight': 8},
  },
  'replayed': {
    'method': TIS,
    'prompts': {
      'max_age': 2,
      'scale': 0.5,
      'replay': {'name': 'replay.mixture', 'size': 8, 'share': 0.5},
    },
  },
}


def settings(folder, way):
  made = tiny.config(folder, steps=STEPS, **WAYS[way])
  made.eval.update(every=9, tasks=1, final_tasks=2)
  made.checkpoint.update(every=1, keep=9)
  return made


@pytest.fixture(scope='module', params=WAYS)
def run(request, model_folder, tmp_path_factory, compiled_once):
  """(way, folder, final state) of an uninterrupted run."""
  del compiled_once
  folder = tmp_path_factory.mktemp(request.param) / 'whole'
  way = request.param
  return way, folder, loop.train(settings(model_folder, way), folder)


def test_a_resumed_run_is_the_run(run, model_folder, tmp_path):
  way, folder, now = run
  tiny.cut(folder, tmp_path / 'cut', CUT)
  tiny.same(loop.train(settings(model_folder, way), tmp_path / 'cut'), now)
  assert tiny.rows(tmp_path / 'cut') == tiny.rows(folder)


def test_what_each_says(run):
  way, folder, now = run
  rows = tiny.rows(folder)
  assert int(now.updates) > 0
  if way == 'kalman':
    assert all(row['prompts/change'] > 0 for row in rows)
    assert rows[0]['prompts/expected'] == pytest.approx(0.5)
    assert [('templates/information' in row) for row in rows] == [0, 1, 0, 1]
    assert all(row['prompts/spread'] > 0 for row in rows)
  elif way == 'refilled':
    assert max(row['prompts/rounds'] for row in rows) > 1
    for row in rows:
      full = row['train/groups_used'] == 1
      assert full == (not row['prompts/exhausted'])
      # Success is that of all that was sampled, selected or not.
      assert row['train/episodes'] == 16 * min(row['prompts/rounds'], 3)
  elif way == 'in parts':
    assert rows[CUT - 1]['partial/unfinished'] > 0
    assert max(row['partial/age'] for row in rows) > 0
    for row in rows:
      assert row['partial/finished'] >= 1 and row['partial/age'] <= 3
      assert row['train/episodes'] == 4 * row['partial/finished']
  else:
    assert rows[0]['replay/again'] == 0
    assert max(row['replay/again'] for row in rows) > 0
    assert all(row['replay/oldest'] <= 2 for row in rows)


def test_what_is_kept_goes_through_a_checkpoint(run, model_folder):
  del model_folder
  way, folder, now = run
  saved = checkpoint.Checkpoints(folder, keep=9)
  meta, _ = saved.resume(now, lambda meta: None)
  saved.close()
  env = tiny.letters()
  kept = carried.from_json(meta['gathered'], env)
  again = carried.from_json(carried.to_json(kept), env)
  assert again.chosen == kept.chosen and again.spreads == kept.spreads
  assert len(again.buffer) == len(kept.buffer)
  if way == 'in parts':
    assert len(again.unfinished) == len(kept.unfinished)
    for left, right in zip(kept.unfinished, again.unfinished):
      assert left.live.tokens == right.live.tokens and left[1:] == right[1:]
  if way != 'replayed':
    return
  assert 0 < len(kept.buffer) <= 8
  for one in kept.buffer:
    assert STEPS - 1 - one.version <= 2 and one.uses <= 2
    for each in one.group.episodes:
      versions = each.extras['rollout_version'][each.mask]
      assert np.all(versions == one.version)


def test_webrl_with_its_critic(model_folder, tmp_path):
  """Variations are judged by the critic, and successes are replayed."""
  made = settings(model_folder, 'kalman')
  made.method = {'name': 'offpolicy.tis', 'base': 'ppo.ppo'}
  made.env = {'name': 'test_gather_runs.varying'}
  made.prompts.choose = {
    'name': 'webrl.phases', 'steps': 2, 'low': 0.0, 'high': 1.0,
  }  # fmt: skip
  made.prompts.replay = {'name': 'webrl.successes', 'low': 0.0, 'high': 1.0}
  made.prompts.update(max_age=9, least_spread=0.0)
  made.eval.crossed = 0
  now = loop.train(made, tmp_path / 'whole')
  rows = tiny.rows(tmp_path / 'whole')
  assert rows[1]['prompts/made'] == 8
  assert 0 <= rows[1]['prompts/kept'] <= 8
  assert sum(row['replay/drawn'] for row in rows) > 0
  tiny.cut(tmp_path / 'whole', tmp_path / 'cut', 2)
  tiny.same(loop.train(made, tmp_path / 'cut'), now)
  assert tiny.rows(tmp_path / 'cut') == rows


def varying():
  """The letters, whose tasks vary."""

  def vary(task, rng):
    id, _ = base.varied_id(task.id, rng)
    return task._replace(id=id)

  return tiny.letters()._replace(vary=vary)


def in_order(pool):
  """A curriculum that takes tasks as they come."""

  def choose(state, step):
    first = step * pool.batch
    return [pool.task(first + i) for i in range(pool.batch)], state

  still = lambda state, groups, told: (state, {})
  return curricula.Curriculum(dict, choose, still)


def drying():
  """Letters of which the first 40 tasks alone earn something."""

  def step(state, text):
    id, turns = state
    wet = int(id.rpartition('/')[2]) < 40
    reward = 0.5 * (wet and len(text) % 2)
    return (id, turns + 1), episode.Turn('d', reward, turns == 1)

  return tiny.letters()._replace(step=step)


def test_a_run_without_spread_ends(model_folder, tmp_path, capsys):
  made = settings(model_folder, 'kalman')
  made.steps, made.env = 24, {'name': 'test_gather_runs.drying'}
  made.prompts.choose = {'name': 'test_gather_runs.in_order'}
  made.prompts.update(size=96, least_spread=0.5)
  made.eval.crossed = 0
  loop.train(made, tmp_path)
  rows = tiny.rows(tmp_path)
  assert len(rows) == 20 and rows[-1]['prompts/collapsed'] == 1
  assert 'config.prompts.least_spread' in capsys.readouterr().out
  assert (tmp_path / 'results.json').exists()
