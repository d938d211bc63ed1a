"""One rollout a prompt, ahead of the learner, a critic that leads (SAO)."""

import jax
import numpy as np
import pytest
import test_rollouts_ahead
import tiny

from arl.models import critics, functional, hf
from arl.train import loop

pytestmark = pytest.mark.usefixtures('compiled_once')


def settings(folder, steps):
  made = test_rollouts_ahead.settings(
    folder,
    rollout={'ahead': 1, 'window': 0},
    prompts={'batch': 8, 'samples': 1, 'in_flight': 4, 'size': 24},
    updates={
      'epochs': 2,
      'per_batch': 1,
      'frozen': 'value_head/trunk/layers/.*/attention/.*',
    },
  )
  made.steps = steps
  made.method = {'name': 'ppo.sao'}
  made.model.critic = 'own'
  made.optimizer = {
    'name': 'optimizers.critic_first',
    'base': made.optimizer.to_dict(),
    'every': 2,
    'alone': 4,  # the first leaves a head of zeros, so its trunk, alone
  }
  return made


def paths(left, right):
  """The parameters in which two trees differ."""
  return {
    jax.tree_util.keystr(path, simple=True, separator='/')
    for (path, x), y in zip(
      jax.tree_util.tree_leaves_with_path(left), jax.tree.leaves(right)
    )
    if not np.array_equal(x, y)
  }


def test_the_critic_leads_and_no_rollout_waits_for_a_group(
  model_folder, tmp_path
):
  first = loop.train(settings(model_folder, 2), tmp_path / 'run').params
  start = hf.load(model_folder).params
  assert not paths(start, critics.policy(first))
  head = first[functional.VALUE_HEAD]
  moved = paths(start, head[critics.TRUNK])
  assert moved and not any('/attention/' in path for path in moved)
  last = loop.train(settings(model_folder, 4), tmp_path / 'run').params
  assert any('/attention/' in path for path in paths(first, last))
  assert paths(start, critics.policy(last))
  rows = tiny.rows(tmp_path / 'run')
  assert [row['train/episodes'] for row in rows] == [8] * 4
  assert max(row['ahead/age_max'] for row in rows) == 1
