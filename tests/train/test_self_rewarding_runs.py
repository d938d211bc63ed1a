"""Whole runs on rewards of one's own: DPO on what the policy says of itself."""

import numpy as np
import pytest
import tiny

from arl import episode
from arl.rewards import judgements, verdict
from arl.rollout import self_rewarding
from arl.train import loop

pytestmark = pytest.mark.usefixtures('compiled_once')

# A tiny model says something of any length; only what says nothing is unread.
_FORM = judgements.Form(
  ask=lambda task, done: ('', f'{task.prompt}{done[-1].action[:3]}?'),
  read=lambda text: (
    verdict.scored(text.count('a') / max(len(text), 1))
    if text
    else verdict.error('nothing was said')
  ),
  write=str,
)
told = self_rewarding.judged(_FORM)
silent = self_rewarding.judged(
  _FORM._replace(read=lambda text: verdict.error('unread'))
)


def config(folder, strategy):
  made = tiny.config(
    folder,
    steps=3,
    method={'name': 'preference.dpo', 'beta': 0.1},
    prompts={'select': 'pairs.best_against_worst'},
    eval={'every': 9, 'tasks': 1, 'final_tasks': 4},
  )
  made.rollout.strategy = f'test_self_rewarding_runs.{strategy}'
  made.rollout.max_failed = 0.99
  return made


def test_a_policy_learns_from_its_own_judgements(model_folder, tmp_path):
  now = loop.train(config(model_folder, 'told'), tmp_path)
  assert int(now.updates) > 0
  rows = [r for r in tiny.rows(tmp_path) if r['train/groups_used'] > 0]
  assert rows
  for row in rows:
    assert np.isfinite(row['loss/policy'])
    assert row['train/failed'] == row[f'train/{episode.REWARD_ERROR}']
    assert 0 <= row['environment/success'] <= 1
    assert -1 <= row['environment/correlation'] <= 1
    for name in ('preferred_tokens', 'other_tokens'):
      assert row[f'policy/{name}'] >= 1


def test_a_policy_that_cannot_judge_stops_the_run(model_folder, tmp_path):
  with pytest.raises(RuntimeError, match='16 of 16 .*: reward_error: no judge'):
    loop.train(config(model_folder, 'silent'), tmp_path)
