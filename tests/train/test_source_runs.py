"""Whole runs in which half of what is learnt was written by another."""

import jax
import numpy as np
import pytest
import tiny

from arl.models import hf
from arl.train import loop

pytestmark = pytest.mark.usefixtures('compiled_once')


def config(folder, **blocks):
  made = tiny.config(
    folder,
    steps=4,
    prompts={'samples': 2, 'batch': 8},
    eval={'every': 9, 'tasks': 1, 'final_tasks': 4},
    **blocks,
  )
  made.rollout.strategy = 'demonstrations.beside'
  return made


def test_a_demonstrator_is_preferred_to_the_policy(model_folder, tmp_path):
  made = config(model_folder, method={'name': 'preference.dpo', 'beta': 1.0})
  made.prompts.select = 'pairs.data_against_policy'
  loop.train(made, tmp_path)
  first, *_, last = tiny.rows(tmp_path)
  np.testing.assert_allclose(first['loss/policy'], np.log(2), rtol=0.2)
  assert last['policy/margin'] > first['policy/margin']
  assert last['policy/accuracy'] > 0.5
  assert last['train/groups_used'] > 0.5


def test_generalized_distillation_of_both(model_folder, tmp_path):
  teacher = tiny.write_model(tmp_path / 'teacher', seed=5)
  made = config(model_folder, method={'name': 'matching.gkd', 'k': 4})
  made.model.teacher = str(teacher)
  loop.train(made, tmp_path / 'run')
  again = loop.train(made, tmp_path / 'again')
  rows = tiny.rows(tmp_path / 'run')
  assert rows == tiny.rows(tmp_path / 'again')
  assert rows[-1]['loss/matched'] < rows[0]['loss/matched']
  assert all(row['train/episodes'] == 16 for row in rows)
  moved = jax.tree.leaves(
    jax.tree.map(
      lambda x, y: float(np.max(np.abs(x - y))),
      jax.device_get(again.params),
      jax.device_get(hf.load(model_folder).params),
    )
  )
  assert max(moved) > 0
