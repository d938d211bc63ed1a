"""Runs by several processes against runs by one."""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys

import jax
import numpy as np
import pytest
import tiny

from arl.models import hf
from arl.rollout import strategies
from arl.train import loop, processes

pytestmark = pytest.mark.usefixtures('compiled_once')
HERE = pathlib.Path(__file__).parent
SECONDS = 240  # of a run; one takes a few on a free machine


def settings(mesh, **blocks):
  return {
    'steps': 2,
    'mesh': mesh,
    'checkpoint': {'every': 1},
    'eval': {'every': 1},
    **blocks,
  }


def start(count, workdir, model, blocks, cache):
  """So many processes of one device each; the coordinator is the first."""
  with socket.socket() as free:
    free.bind(('127.0.0.1', 0))
    address = f'127.0.0.1:{free.getsockname()[1]}'
  told = {'workdir': str(workdir), 'model': str(model), 'blocks': blocks}
  told |= {'coordinator': address, 'processes': count}
  env = {
    **os.environ,
    'JAX_PLATFORMS': 'cpu',
    'XLA_FLAGS': '--xla_backend_optimization_level=0',
    'JAX_COMPILATION_CACHE_DIR': str(cache),
    'PYTHONPATH': f'{HERE.parent}:{HERE.parent.parent}',
  }
  each = [json.dumps(told | {'process': i}) for i in range(count)]
  return [
    subprocess.Popen(
      [sys.executable, HERE / 'one_of_several.py', one],
      env=env,
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
    )
    for one in each
  ]


def ended(started):
  """(exit code, output, errors) of each."""
  try:
    said = [each.communicate(timeout=SECONDS) for each in started]
  finally:
    for each in started:
      each.kill()
  codes = (each.returncode for each in started)
  return [(code, *both) for code, both in zip(codes, said, strict=True)]


def close(folder, other):
  """The same losses, episodes and parameters, but for rounding."""
  for one, two in zip(tiny.rows(folder), tiny.rows(other), strict=True):
    assert one.keys() == two.keys()
    for name, value in one.items():
      if name.startswith(('mismatch/', 'policy/')):  # of rounding alone
        np.testing.assert_allclose(value, two[name], atol=1e-4, err_msg=name)
      else:
        np.testing.assert_allclose(
          value, two[name], rtol=1e-3, atol=2e-5, err_msg=name
        )
  mine, theirs = (hf.load(each / 'final').params for each in (folder, other))
  near = lambda x, y: np.testing.assert_allclose(x, y, atol=2e-4)
  jax.tree.map(near, mine, theirs)


def check_alike(count, mesh, tmp_path, model, cache):
  blocks = settings(mesh)
  made = ended(start(count, tmp_path / 'several', model, blocks, cache))
  assert [code for code, _, _ in made] == [0] * count, made
  loop.train(tiny.config(model, **blocks), tmp_path / 'one')
  close(tmp_path / 'several', tmp_path / 'one')
  assert 'step 2/2' in made[0][1]
  assert not any('step' in out for _, out, _ in made[1:])


def test_two_processes_train_what_one_does(
  tmp_path, model_folder, compiled_once
):
  check_alike(2, {'fsdp': 2}, tmp_path, model_folder, compiled_once)


@pytest.mark.slow
def test_four_processes_resume_what_one_began(
  tmp_path, model_folder, compiled_once
):
  mesh = {'data': 2, 'fsdp': 2}
  check_alike(4, mesh, tmp_path, model_folder, compiled_once)
  blocks = settings(mesh, steps=3)
  made = ended(
    start(4, tmp_path / 'several', model_folder, blocks, compiled_once)
  )
  assert [code for code, _, _ in made] == [0] * 4, made
  assert 'after step 2' in made[0][1]
  loop.train(tiny.config(model_folder, **blocks), tmp_path / 'one')
  close(tmp_path / 'several', tmp_path / 'one')


def test_a_process_that_dies_ends_the_others(
  tmp_path, model_folder, compiled_once
):
  blocks = settings({'data': 2}, env={'name': 'one_of_several.dying', 'at': 3})
  made = ended(start(2, tmp_path, model_folder, blocks, compiled_once))
  assert made[1][0] == 3
  assert made[0][0] not in (0, None)
  assert 'another process ended before' in made[0][2] or (
    'JAX distributed service' in made[0][2]
  )


@pytest.mark.slow
def test_stopping_one_stops_all_after_their_step(
  tmp_path, model_folder, compiled_once
):
  blocks = settings(
    {'data': 2},
    steps=9,
    env={'name': 'one_of_several.interrupted', 'at': 60},
  )
  made = ended(start(2, tmp_path, model_folder, blocks, compiled_once))
  assert [code for code, _, _ in made] == [0, 0], made
  assert re.search(r'stopped after step \d; its checkpoint', made[0][1])
  assert not (tmp_path / 'final').exists()


# Without another process.


def test_shares_are_all_there_is(monkeypatch):
  monkeypatch.setattr(jax, 'process_count', lambda: 3)
  found = []
  for index in range(3):
    monkeypatch.setattr(jax, 'process_index', lambda index=index: index)
    found += range(7)[processes.share(7)]
  assert found == list(range(7))


def test_randomness_is_of_the_place_among_all_tasks(monkeypatch):
  env, asked = tiny.letters(), []
  tasks = [env.task('train', i) for i in range(5)]
  strategy = lambda engine, env, chat, tasks, plan: [
    asked.append((*plan.path, place)) or task
    for place, task in enumerate(tasks, plan.first)
  ]
  parts = []
  monkeypatch.setattr(jax, 'process_count', lambda: 2)
  monkeypatch.setattr(processes, 'everybody', lambda x: parts.append(x) or [x])
  plan = strategies.Plan(1, None, None, (7,))
  for index in range(2):
    monkeypatch.setattr(jax, 'process_index', lambda index=index: index)
    processes.shared(strategy)(None, env, None, tasks, plan)
  assert [one for part in parts for one in part] == tasks
  assert asked == [(7, place) for place in range(5)]


def test_an_error_in_one_is_told_to_all(monkeypatch):
  told = []

  def everybody(value):
    told.append(value)
    return [[], processes._Failure('TypeError: a mistake')]

  def mistaken(*given):
    raise TypeError('a mistake')

  monkeypatch.setattr(jax, 'process_count', lambda: 2)
  monkeypatch.setattr(processes, 'everybody', everybody)
  plan = strategies.Plan(1, None, None, (7,))
  given = None, None, None, [0, 1], plan
  with pytest.raises(RuntimeError, match='process 1 failed: TypeError: a m'):
    processes.shared(lambda *given: [])(*given)
  with pytest.raises(TypeError, match='a mistake'):
    processes.shared(mistaken)(*given)
  assert told == [[], 'TypeError: a mistake']


@pytest.mark.parametrize(
  'arguments',
  [('', 2, 0), ('host:1', 0, -1), ('host:1', 2, 2), ('auto', 2, 0)],
)
def test_arguments_that_contradict_each_other(arguments):
  with (
    pytest.raises(ValueError, match='give HOST:PORT'),
    processes.joined(*arguments),
  ):
    pass


@pytest.mark.parametrize(
  'block, key, value',
  [('rollout', 'budget', 4), ('rollout', 'ahead', 1), ('engine', 'urls', 'u')],
)
def test_settings_that_several_cannot_keep(
  monkeypatch, model_folder, block, key, value
):
  config = tiny.config(model_folder)
  config[block][key] = value
  processes.check(config)
  monkeypatch.setattr(jax, 'process_count', lambda: 2)
  with pytest.raises(ValueError, match=f'config.{block}.{key}'):
    processes.check(config)
