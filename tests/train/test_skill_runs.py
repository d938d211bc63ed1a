"""Whole runs that are taught by the skills a policy writes itself."""

import numpy as np
import pytest
import test_tutors
import tiny

from arl.envs import skills
from arl.train import loop

speller = test_tutors.speller
pytestmark = pytest.mark.usefixtures('compiled_once')


def config(folder):
  made = test_tutors.config(folder)
  made.steps = 2
  made.method = {'name': 'distillation.seed', 'coef': 1.0}
  made.rollout.strategy = 'privileged.told_skill'
  return made


def test_without_a_skill_nothing_pulls(speller, tmp_path):
  """A fresh policy writes none that can be read."""
  loop.train(config(speller), tmp_path)
  for row in tiny.rows(tmp_path):
    assert row['loss/hindsight'] == 0 and row['train/graded'] == 8


def test_a_skill_pulls(speller, tmp_path, monkeypatch):
  monkeypatch.setattr(skills, 'read', lambda text: 'do: get =')
  loop.train(config(speller), tmp_path)
  for row in tiny.rows(tmp_path):
    assert np.isfinite(row['loss/hindsight']) and row['loss/hindsight'] != 0
