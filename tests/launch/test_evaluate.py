"""The command, run as a reader would run it, on a fresh model."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from arl.evaluate import summary
from arl.rollout import engine
from arl.train import build, evaluation, export, loading
from experiments import quickstart

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope='module')
def config(tmp_path_factory):
  """The quick configuration of a fresh model, saved as a folder."""
  folder = tmp_path_factory.mktemp('model')
  config = quickstart.get_config('quick')
  fresh = {**config.model.to_dict(), 'path': '', 'size': 'quick'}
  config.model.update(fresh)
  loaded, tokenizer = loading.load_model(config.model, seed=0)
  export.save(folder, loaded.params, loaded.sizes, tokenizer)
  config.model.update({'path': str(folder), 'size': ''})
  return config


def command(config, output, *arguments):
  return subprocess.run(
    [
      sys.executable,
      '-m',
      'launch.evaluate',
      f'--config=experiments/quickstart.py:quick,model={config.model.path}',
      f'--output={output}',
      *arguments,
    ],
    cwd=ROOT,
    env={**os.environ, 'JAX_PLATFORMS': 'cpu', 'XLA_FLAGS': ''},
    capture_output=True,
    text=True,
    timeout=300,
  )


def test_a_word_that_is_no_flag_is_refused(config, tmp_path):
  done = command(config, tmp_path / 'result.json', 'tasks=6')
  assert done.returncode == 1
  assert 'unexpected arguments: tasks=6' in done.stdout + done.stderr
  assert not (tmp_path / 'result.json').exists()


def test_it_measures_what_training_measures(config, tmp_path):
  output = tmp_path / 'new' / 'result.json'
  done = command(config, output, '--tasks=6', '--config.rollout.max_turns=2')
  assert done.returncode == 0, done.stderr
  result = json.loads(output.read_text())
  config.rollout.max_turns = 2
  world = build.world(config)
  tasks = evaluation.held_out(world, config.eval.tasks, 6)
  episodes = evaluation.run(
    world, tasks, engine.Sampling(), (evaluation.FINAL,)
  )
  expected = summary.success(episodes)
  assert {name: result[name] for name in expected} == expected
  assert result['first'] == config.eval.tasks
  assert result['interval'] == 'Wilson'
  assert f'{expected["max_tokens"]}' in done.stdout
  assert 'success' in done.stdout
  told = result['transcripts']
  assert [each['task'] for each in told] == [e.task.id for e in episodes]
  actions = [[turn['action'] for turn in each['turns']] for each in told]
  assert actions == [[x.action for x in e.exchanges] for e in episodes]
