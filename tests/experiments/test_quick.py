"""Every experiment runs as `quick`, from nothing that was made before."""

import importlib
import pathlib
import re

import pytest

from arl.train import build, corlhf, loop, metrics, settings
from experiments import common

ROOT = pathlib.Path(__file__).parents[2] / 'experiments'
COMMAND = re.compile(r'python -m (launch\.\w+) ')
NAMES = sorted(
  path.stem
  for path in ROOT.glob('*.py')
  if '\ndef get_config(' in path.read_text('utf-8')
)
# Their problems are longer than what a fresh model reads.
PRETRAINED = {'public_tasks', 'smollm2_evals'}


def quick(name, more=''):
  """(command, config) of an experiment's smoke run."""
  module = importlib.import_module(f'experiments.{name}')
  command = COMMAND.findall(module.__doc__)[-1]
  return command, module.get_config('quick' + more)


def test_experiments_are_found():
  assert {'quickstart', 'world', 'corlhf', 'smollm2_tools'} <= set(NAMES)


@pytest.mark.parametrize('name', NAMES)
def test_it_starts_from_nothing(name):
  command, config = quick(name)
  if name in PRETRAINED:
    assert config.model.path == 'runs/smollm2/model'
    return
  assert not config.model.path and config.model.size == 'quick'
  assert config.model.teacher in ('', 'start')
  if command == 'launch.corlhf':
    settings.check(config, corlhf.SCHEMA)
    corlhf.sides(config)
    return
  build.check(config)


@pytest.mark.parametrize(
  'name', ['quickstart', 'self_distill', 'smollm2_tools']
)
def test_a_model_that_is_given_is_taken(name):
  _, config = quick(name, ',model=a/b')
  assert config.model.path == 'a/b' and not config.model.size
  assert not config.reward.terms


def test_a_fresh_model_may_be_asked_for():
  module = importlib.import_module('experiments.quickstart')
  config = module.get_config(f'model={common.FRESH}')
  assert config.model.size == 'quick' and config.steps == 40


def test_updates_are_made_of_what_a_fresh_model_does(tmp_path, compiled_once):
  del compiled_once
  _, config = quick('quickstart')
  config.steps = 1
  config.rollout.max_turns = 2
  config.eval.update(every=1, tasks=2, final_tasks=2)
  loop.train(config, tmp_path)
  (row,) = metrics.read(tmp_path)
  assert row['train/updates'] == 2 and row['reward/short'] < 0
  assert row['train/success'] == 0
