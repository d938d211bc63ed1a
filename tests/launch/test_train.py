"""The command in a real process: it stops when asked to, and resumes."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest
import tiny

from arl.models import hf
from arl.train import loop, metrics

ROOT = pathlib.Path(__file__).parents[2]
STEPS = 40
_CONFIG = f"""
import tiny

def get_config(folder):
  made = tiny.config(folder, steps={STEPS})
  made.eval.update(every={STEPS}, tasks=1, final_tasks=4)
  made.checkpoint.every = 100
  return made
"""


@pytest.fixture(scope='module')
def place(tmp_path_factory, compiled_once):
  """A folder with a model, a config, and what is compiled."""
  folder = tmp_path_factory.mktemp('launch')
  tiny.write_model(folder / 'model')
  (folder / 'config.py').write_text(_CONFIG)
  (folder / 'compiled').symlink_to(compiled_once)
  return folder


def start(place, *arguments):
  config = f'{place}/config.py:{place}/model'
  return subprocess.Popen(
    [sys.executable, '-m', 'launch.train', f'--config={config}', *arguments],
    cwd=ROOT,
    env={
      **os.environ,
      'JAX_PLATFORMS': 'cpu',
      'PYTHONPATH': str(ROOT / 'tests'),
      'JAX_COMPILATION_CACHE_DIR': str(place / 'compiled'),
      'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0',
    },
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
  )


def finish(process):
  """(exit code, what else it printed)"""
  said, _ = process.communicate(timeout=300)
  return process.returncode, said


def weights(folder):
  return (folder / 'final/model.safetensors').read_bytes()


def test_it_stops_when_asked_to_and_resumes_to_the_same_weights(
  place, tmp_path
):
  process = start(place, f'--workdir={tmp_path}/stopped')
  for line in process.stdout:
    if line.startswith('step 1/'):
      process.send_signal(signal.SIGINT)
      break
  code, said = finish(process)
  assert code == 0, said
  found = re.search(
    r'^stopped after step (\d+); its checkpoint is in '
    rf'{tmp_path}/stopped\. To go on, run the same command again\.$',
    said,
    re.MULTILINE,
  )
  assert found, said
  step = int(found[1])
  assert 1 <= step < STEPS
  rows = metrics.read(tmp_path / 'stopped')
  assert [row['step'] for row in rows] == list(range(1, step + 1))
  assert not (tmp_path / 'stopped/final').exists()

  code, said = finish(start(place, f'--workdir={tmp_path}/stopped'))
  assert code == 0, said
  assert f'resumed {tmp_path}/stopped after step {step}' in said

  config = tiny.config(place / 'model', steps=STEPS)
  config.eval.update(every=STEPS, tasks=1, final_tasks=4)
  config.checkpoint.every = 100
  loop.train(config, tmp_path / 'whole')
  assert weights(tmp_path / 'stopped') == weights(tmp_path / 'whole')
  results = [
    json.loads((tmp_path / name / 'results.json').read_text())
    for name in ('stopped', 'whole')
  ]
  assert results[0]['after'] == results[1]['after']
  assert hf.load(tmp_path / 'stopped/final').sizes == tiny.size()


@pytest.mark.parametrize(
  'argument, words',
  [
    (
      '--config.rollout.turn_token=3',
      'Did you mean "turn_tokens" instead of "turn_token"?',
    ),
    ('--config.steps=2.5', 'flag --config.steps=2.5: invalid literal for int'),
    (
      '--config.rollout.top_p=0.9',
      'a truncated distribution is not the one that the trainer differentiates',
    ),
  ],
)
def test_a_wrong_setting_ends_it_before_anything_runs(
  place, tmp_path, argument, words
):
  code, said = finish(start(place, f'--workdir={tmp_path}/run', argument))
  assert code != 0
  assert words in said
  assert not (tmp_path / 'run').exists()
