"""Commands begin alike: what is compiled is kept, refusals are one sentence."""

import os
import pathlib
import subprocess
import sys

import pytest
from ml_collections import config_dict

from arl import names
from launch import start

_COMMAND = """
import jax
from launch import start
start._LEAST = 0.0
start.keep_compiled()
jax.config.update('jax_persistent_cache_min_entry_size_bytes', -1)
print(jax.jit(lambda x: (x * 3).sum())(jax.numpy.arange(4.0)))
"""


def command(**changed):
  env = {k: v for k, v in os.environ.items() if not k.startswith('JAX_')}
  return subprocess.run(
    [sys.executable, '-c', _COMMAND],
    env={**env, 'JAX_PLATFORMS': 'cpu', **changed},
    cwd=pathlib.Path(__file__).parents[2],
    capture_output=True,
    text=True,
    timeout=120,
    check=True,
  )


def kept(folder):
  return {path.name for path in folder.rglob('*-cache')}


def test_what_a_run_compiled_serves_the_next(tmp_path):
  first = command(XDG_CACHE_HOME=str(tmp_path))
  there = kept(tmp_path / 'arl')
  assert there
  again = command(XDG_CACHE_HOME=str(tmp_path))
  assert kept(tmp_path / 'arl') == there
  assert first.stdout == again.stdout == '18.0\n'


def test_a_folder_of_the_users_choice_is_left_to_jax(tmp_path):
  own = tmp_path / 'own'
  command(XDG_CACHE_HOME=str(tmp_path), JAX_COMPILATION_CACHE_DIR=str(own))
  assert not (tmp_path / 'arl').exists()


def test_nothing_is_kept_where_nothing_can_be_written(tmp_path):
  (tmp_path / 'arl').write_text('a file where the folder would be')
  made = command(XDG_CACHE_HOME=str(tmp_path))
  assert made.stdout == '18.0\n'
  assert 'cannot be written' in made.stderr


@pytest.fixture
def processors(monkeypatch):
  """Sets what the machine says of its processor."""

  def told(text):
    monkeypatch.setattr(pathlib.Path, 'is_file', lambda path: True)
    monkeypatch.setattr(pathlib.Path, 'read_text', lambda path, **_: text)
    return start.kept_in()

  return told


def test_each_kind_of_processor_has_a_folder_of_its_own(processors):
  old = processors('model name: A\nflags: sse\ncpu MHz: 2000\n')
  assert old == processors('model name: A\nflags: sse\ncpu MHz: 1000\n')
  assert old != processors('model name: A\nflags: sse avx\ncpu MHz: 2000\n')


def raised(call, *arguments):
  try:
    call(*arguments)
  except Exception as error:
    return error
  raise AssertionError('nothing was raised')


def test_what_this_project_refuses_is_a_sentence():
  error = raised(names.resolve, 'grpo.dapoo', 'arl.methods')
  assert start.refusal(error).endswith("did you mean 'grpo.dapo'?")


def test_a_key_that_a_config_lacks_is_a_sentence():
  config = config_dict.ConfigDict({'high': 0.2}).lock()
  error = raised(lambda: config.hihg)
  assert start.refusal(error).startswith("the config has no key 'hihg'")


@pytest.mark.parametrize('call', [lambda: int('x'), lambda: {}['x']])
def test_what_happens_to_code_is_none(call):
  assert start.refusal(raised(call)) is None


def test_an_error_of_a_library_is_none():
  assert start.refusal(raised(pathlib.Path('/none').read_text)) is None


@pytest.mark.parametrize(
  'arguments, said',
  [
    (['--config=experiments/quickstart.py:modl=x'], "'modl=x': known are"),
    (['--config=experiments/quickstart.py:model=none'], 'none is no folder'),
  ],
)
def test_a_command_ends_with_the_sentence(arguments, said, tmp_path):
  done = subprocess.run(
    [sys.executable, '-m', 'launch.train', f'--workdir={tmp_path}', *arguments],
    cwd=pathlib.Path(__file__).parents[2],
    env={**os.environ, 'JAX_PLATFORMS': 'cpu'},
    capture_output=True,
    text=True,
    timeout=120,
  )
  assert done.returncode == 2
  assert done.stderr.startswith('error: ') and said in done.stderr
  assert 'Traceback' not in done.stderr
