"""The likeliest mistakes of a new user, each made, and what arl says.

docs/troubleshooting.md lists them; the excerpts there are what is looked for.
"""

import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
import tiny
from absl import flags
from ml_collections import config_flags

from arl import command, episode
from arl.envs import extras
from arl.models import tokenizers
from arl.rewards import shaping
from arl.train import batch, loop
from launch import doctor, evaluate, show

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / 'docs/troubleshooting.md'
SECTION = '## What arl refuses'
QUICK = '--config=experiments/quickstart.py:quick'


def typed(*words):
  """The config of a user who typed these words after launch.train."""
  argv, values = ['launch.train', *words], flags.FlagValues()
  config_flags.DEFINE_config_file(
    'config', lock_config=True, flag_values=values, sys_argv=argv
  )
  values(argv)
  return values['config'].value


def train(*words):
  """Trains as those words say, in a folder that must stay empty."""

  def call(place):
    try:
      loop.train(typed(*words), str(place / 'run'))
    finally:
      assert not list(place.glob('run/checkpoints/[0-9]*'))

  return call


# --- What stands in folders ---------------------------------------------------


def run_folder(place):
  """The folder of a run in place of that of its model."""
  tiny.write_model(place / 'mine/final')
  (place / 'mine/metrics.jsonl').write_text('{}\n')
  return place / 'mine'


def model_is_a_run(place):
  train(f'{QUICK},model={run_folder(place)}')(place)


def evaluated_is_a_run(place):
  config = typed(f'{QUICK},model={run_folder(place)}')
  evaluate.evaluate(
    config, split='held_out', first=0, tasks=1, samples=1, sampling=None,
    shown=0,
  )  # fmt: skip


def no_weights(place):
  tokenizers.save(tiny.tokenizer(), place / 'model')
  train(f'{QUICK},model={place}/model')(place)


def tokenizer_of_another(place):
  tiny.write_model(place / 'model', shape=tiny.size(vocab=7))
  train(f'{QUICK},model={place}/model')(place)


def another_run_is_there(place):
  tiny.write_model(place / 'model')
  config = tiny.config(place / 'model', steps=1, eval={'every': 1})
  loop.train(config, str(place / 'run'))
  config.optimizer.lr = 0.02
  loop.train(config, str(place / 'run'))


# --- What a user wrote --------------------------------------------------------


def failing_environment(place):
  one = tiny.episodes(1, 1)[0]
  lost = one._replace(
    status=episode.ENVIRONMENT_ERROR, error='OSError: the letters are lost'
  )
  batch.check_failed([lost, lost, one], 0.5)


def reward_of_another_shape(place):
  groups = episode.groups(tiny.episodes(1, 2))
  mean = lambda played: np.mean([episode.total_reward(e) for e in played])
  shaping.add(groups, {'mine': (0.1, mean)}, cap=0.5)


CASES = {
  'give --workdir; --help says what it is.': None,
  "Unknown command line flag 'workdri'. Did you mean: workdir ?": None,
  'there is no config quickstart.py': train('--config=quickstart.py:quick'),
  'config.stages belongs to another command; run python -m launch.pipeline.': (
    train('--config=experiments/pipelines/r1.py:quick')
  ),
  "config argument 'quik': known are method, model, quick.": train(
    '--config=experiments/quickstart.py:quik'
  ),
  'config argument method=grppo: did you mean grpo?': train(
    f'{QUICK},method=grppo'
  ),
  'Did you mean "turn_tokens" instead of "turn_token"?': train(
    QUICK, '--config.rollout.turn_token=3'
  ),
  'flag --config.steps=2.5: invalid literal for int()': train(
    QUICK, '--config.steps=2.5'
  ),
  'config.steps is 0; it must be at least 1.': train(QUICK, '--config.steps=0'),
  "'grpo.dapoo' names no function": train(
    QUICK, '--config.method.name=grpo.dapoo'
  ),
  "grpo() got an unexpected keyword argument 'high'": train(
    QUICK, '--config.method.name=grpo.grpo'
  ),
  'grpo.dapo: low is -0.2; it must be in [0, inf).': train(
    QUICK, '--config.method.low=-0.2'
  ),
  'is no folder; give the folder of a Hugging Face model': train(
    f'{QUICK},model=runs/none'
  ),
  'holds no tokenizer.json; give the folder of a Hugging Face model': (
    model_is_a_run
  ),
  'has no config.json; give the folder of a Hugging Face model': no_weights,
  "the model's vocabulary is 7; load the tokenizer of this model": (
    tokenizer_of_another
  ),
  'the workdir holds a run with other settings (optimizer.lr: 0.01 -> 0.02)': (
    another_run_is_there
  ),
  'mesh: data=16 x fsdp=1 x expert=1 x context=1 x tensor=1 needs 16 devices': (
    train(QUICK, '--config.mesh.data=16')
  ),
  'a microbatch of 4 rows does not divide over 8 devices': train(
    QUICK, '--config.mesh.data=8'
  ),
  'config.updates.per_batch is 8, but a batch has only 4 groups': train(
    QUICK, '--config.updates.per_batch=8'
  ),
  'config.prompts.samples is 1, but select.varied keeps groups whose rewards': (
    train(QUICK, '--config.prompts.samples=1')
  ),
  'leaves no room to answer in a context of 8; raise rollout.context': train(
    QUICK, '--config.rollout.context=8'
  ),
  'exceeds the 256 that the model was made for; set rollout.context': train(
    QUICK, '--config.rollout.context=4096'
  ),
  'training needs temperature > 0, top_p = 1 and top_k = 0': train(
    QUICK, '--config.rollout.top_p=0.9'
  ),
  "config.engine.folder is ''; weights reach the servers through a folder": (
    train(QUICK, '--config.engine.urls=http://127.0.0.1:9')
  ),
  'start a server there with launch/sglang.sh or python -m launch.serve': train(
    QUICK,
    '--config.engine.urls=http://127.0.0.1:9',
    '--config.engine.folder=weights',
  ),
  "nothing fills in this run; set config.model.teacher to the teacher's": (
    train(QUICK, "--config.method={'name': 'distillation.opd'}")
  ),
  'config.reward.terms.mine: give it a weight.': train(
    QUICK, "--config.reward.terms={'mine': {'name': 'shaping.turns'}}"
  ),
  'it must give each a finite number.': reward_of_another_shape,
  '2 of 3 episodes failed, more than rollout.max_failed = 0.5': (
    failing_environment
  ),
  'has no metrics.jsonl, which a run writes from its first step on': (
    lambda place: doctor.read(place)
  ),
  'has no results.json, which is written when a run is finished': (
    lambda place: show.read(place)
  ),
  'this environment needs no_such_library, which cannot be imported': (
    lambda place: extras.load('no_such_library', 'pip install no-such-library')
  ),
  'install JAX for that kind of device, as with arl[gpu] or arl[tpu]': None,
  'does not run or is not Python 3.11 or newer': None,
}
# Those that need a process of their own: words after the Python, and variables.
COMMANDS: dict[str, tuple[list[str], dict[str, str]]] = {
  'give --workdir; --help says what it is.': ([QUICK], {}),
  "Unknown command line flag 'workdri'. Did you mean: workdir ?": (
    [QUICK, '--workdri=x'],
    {},
  ),
  'install JAX for that kind of device, as with arl[gpu] or arl[tpu]': (
    [QUICK, '--workdir=nowhere'],
    {'JAX_PLATFORMS': 'cuda'},
  ),
}


def listed():
  """The excerpts in the page's table."""
  text = PAGE.read_text('utf-8').split(SECTION)[1].split('\n## ')[0]
  rows = [line.split(' | ') for line in text.splitlines() if line[:2] == '| ']
  return [re.search('`(.*)`', row[1])[1] for row in rows[2:]]


def test_the_page_lists_what_is_tried():
  assert listed() == list(CASES)
  assert len(CASES) >= 20


@pytest.mark.parametrize('said', [k for k, case in CASES.items() if case])
def test_a_mistake_is_answered_by_a_sentence(
  said, tmp_path, monkeypatch, compiled_once
):
  del compiled_once
  monkeypatch.chdir(ROOT)
  with pytest.raises(Exception) as caught:
    CASES[said](tmp_path)
  heard = command.refusal(caught.value) or command.failure(caught.value)
  assert heard is not None, caught.value
  assert said in heard
  assert '\n' not in heard and len(heard) < 500


def test_evaluating_a_run_in_place_of_its_model(tmp_path, monkeypatch):
  monkeypatch.chdir(ROOT)
  with pytest.raises(ValueError, match='such as the `final` of a run'):
    evaluated_is_a_run(tmp_path)


def ended(command, **env):
  """What a command that must fail says last, and its status."""
  done = subprocess.run(
    command,
    cwd=ROOT,
    env={**os.environ, **env},
    capture_output=True,
    text=True,
    timeout=120,
  )
  return done.stderr.strip().splitlines(), done.returncode


@pytest.mark.parametrize('said', COMMANDS)
def test_a_command_ends_with_one_line_and_status_2(said):
  words, env = COMMANDS[said]
  lines, status = ended([sys.executable, '-m', 'launch.train', *words], **env)
  assert status == 2 and said in lines[-1]
  assert lines[-1].startswith('error: ')
  assert not any('Traceback' in line for line in lines)


def test_an_old_python_is_refused(tmp_path):
  old = tmp_path / 'python3.10'
  old.write_text('#!/bin/sh\nexit 1\n')
  old.chmod(0o755)
  lines, status = ended(['launch/quickstart.sh'], ARL_PYTHON=str(old),
                        ARL_VENV=str(tmp_path / 'venv'))  # fmt: skip
  assert status == 1
  assert 'does not run or is not Python 3.11 or newer' in lines[-1]
  assert not (tmp_path / 'venv').exists()
