"""Whole runs on preferences: out of a file, and out of rollouts."""

import json

import numpy as np
import pytest
import tiny

from arl.train import build, loop

pytestmark = pytest.mark.usefixtures('compiled_once')


def _from_file(folder, records, method, strategy):
  """The metrics of a run on a file, by a fresh model of characters."""
  path = folder / 'records.jsonl'
  path.write_text('\n'.join(map(json.dumps, records)))
  config = tiny.config(
    '',
    steps=8,
    method=method,
    env={'name': 'recorded.make', 'path': str(path), 'held_out': 2},
    model={'path': '', 'size': 'tiny'},
    prompts={
      'size': 8, 'batch': 8, 'samples': 2, 'select': 'select.everything',
    },
    updates={'microbatch': 4, 'per_batch': 1},
    rollout={'strategy': strategy, 'max_turns': 1, 'context': 32},
    eval={'every': 9, 'tasks': 1, 'final_tasks': 1},
  )  # fmt: skip
  loop.train(config, folder / 'run')
  return tiny.rows(folder / 'run')


@pytest.mark.parametrize('name', ['dpo', 'simpo'])
def test_pairs_of_a_file_are_told_apart(tmp_path, name):
  records = [
    {'prompt': f'{i}?', 'chosen': 'yes', 'rejected': 'no way'}
    for i in range(10)
  ]
  method = {'name': f'preference.{name}', 'beta': 2.0}
  first, *_, last = _from_file(tmp_path, records, method, 'recorded.pairs')
  if name == 'dpo':
    np.testing.assert_allclose(first['loss/policy'], np.log(2), rtol=1e-5)
  assert last['policy/accuracy'] == 1
  assert last['policy/margin'] > first['policy/margin']
  assert last['loss/policy'] < first['loss/policy']


def test_single_answers_of_a_file(tmp_path):
  records = [
    {'prompt': f'{i}?', 'completion': text, 'label': text == 'yes'}
    for i, text in enumerate(['yes', 'no'] * 5)
  ]
  method = {'name': 'preference.kto', 'beta': 2.0}
  first, *_, last = _from_file(tmp_path, records, method, 'recorded.unpaired')
  np.testing.assert_allclose(first['loss/policy'], 0.5, rtol=1e-5)
  assert last['loss/policy'] < first['loss/policy']
  assert first['policy/reference'] == 0


@pytest.mark.parametrize(
  'name, select',
  [('dpo', 'best_against_worst'), ('step_dpo', 'first_step'), ('ipo', '')],
)
def test_pairs_of_rollouts(model_folder, tmp_path, name, select):
  config = tiny.config(
    model_folder,
    steps=3,
    method={'name': f'preference.{name}'},
    prompts={'select': f'pairs.{select}' if select else 'select.varied'},
    eval={'every': 9, 'tasks': 1, 'final_tasks': 4},
  )
  loop.train(config, tmp_path)
  rows = tiny.rows(tmp_path)
  used = [row for row in rows if row['train/groups_used'] > 0]
  assert used and all(np.isfinite(row['loss/policy']) for row in used)
  assert max(row['train/updates'] for row in rows) > 0


def _searching(folder, strategy, **blocks):
  """A run that searches, with six simulations a task."""
  return tiny.config(
    folder,
    steps=3,
    method={'name': 'preference.agent_q', 'beta': 1.0},
    rollout={'strategy': strategy},
    prompts={'samples': 6, 'select': 'pairs.siblings'},
    updates={'microbatch': 6, 'per_batch': 1},
    eval={'every': 9, 'tasks': 1, 'final_tasks': 4},
    **blocks,
  )


@pytest.mark.parametrize('strategy', ['by_likelihood', 'by_critic'])
def test_pairs_of_searches(model_folder, tmp_path, strategy):
  config = _searching(model_folder, f'search.{strategy}')
  loop.train(config, tmp_path)
  rows = tiny.rows(tmp_path)
  assert rows[0]['train/episodes'] == 4 * 6
  used = [row for row in rows if row['train/groups_used'] > 0]
  ranked = float(strategy == 'by_likelihood')  # the model spells no question
  assert used and rows[-1]['train/updates'] == len(used)
  for row in used:  # the first update of a batch is at its reference
    np.testing.assert_allclose(row['loss/policy'], np.log(2), rtol=1e-5)
    np.testing.assert_allclose(row['policy/ranked'], ranked, rtol=1e-5)
    assert row['mismatch/max'] < 1e-4


@pytest.mark.parametrize(
  'strategy', ['strategies.multi_turn', 'recorded.pairs']
)
def test_agent_q_learns_from_searches_alone(strategy):
  config = _searching('some/folder', strategy)
  with pytest.raises(ValueError, match="needs column 'ranked'.*search.by_cri"):
    build.check(config)


def test_a_policy_gradient_does_not_learn_from_a_file(tmp_path):
  records = [{'prompt': 'a', 'chosen': 'b', 'rejected': 'c'}] * 10
  with pytest.raises(ValueError, match='estimates a policy gradient'):
    _from_file(tmp_path, records, {'name': 'grpo.dapo'}, 'recorded.pairs')
