"""Every published pipeline: its stages hold, and can follow each other."""

import importlib
import pathlib

import pytest

from arl.train import build, settings
from launch import pipeline

ROOT = pathlib.Path(__file__).parents[2] / 'experiments/pipelines'
NAMES = sorted(
  path.stem
  for path in ROOT.glob('*.py')
  if path.stem not in ('__init__', 'parts')
)


def made(name, arg=None):
  module = importlib.import_module(f'experiments.pipelines.{name}')
  return module.get_config(arg)


def test_all_pipelines_are_found():
  assert NAMES == [
    'long2short', 'r1', 'reft', 'retrospective', 'rft', 'seed',
    'self_rewarding', 'sparse_to_dense', 'specialists',
  ]  # fmt: skip


@pytest.mark.parametrize('arg', ['', 'quick,seed=3'])
@pytest.mark.parametrize('name', NAMES)
def test_its_stages_hold(name, arg):
  config = made(name, arg)
  pipeline.check(config)
  for stage in config.stages:
    own = config.stage[stage].config
    settings.check(own, settings.TRAIN)
    build.method(own.method)
    build.terms_of(own.reward)
    assert own.seed == (3 if arg else 0)


@pytest.mark.parametrize('name', NAMES)
def test_quick_is_smaller(name):
  whole, quick = made(name), made(name, 'quick')
  assert whole.stages == quick.stages
  for stage in whole.stages:
    one, other = (each.stage[stage].config for each in (whole, quick))
    assert other.steps <= min(2, one.steps)
    assert other.eval.final_tasks < one.eval.final_tasks
    assert one.method == other.method and one.env == other.env
