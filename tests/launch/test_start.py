"""Commands begin alike: what is compiled is kept, refusals are one sentence."""

import errno
import os
import pathlib
import subprocess
import sys

import pytest
from ml_collections import config_dict

from arl import command as command_lib
from arl import episode, names
from arl.train import batch
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
  assert command_lib.refusal(error).endswith("did you mean 'grpo.dapo'?")


def test_a_key_that_a_config_lacks_is_a_sentence():
  config = config_dict.ConfigDict({'high': 0.2}).lock()
  error = raised(lambda: config.hihg)
  assert command_lib.refusal(error).startswith("the config has no key 'hihg'")


def broken_environment():
  task, status = episode.Task('a', 'a?', {}), episode.ENVIRONMENT_ERROR
  one = episode.Episode(task, 0, *[()] * 5, status, error='it is gone')
  batch.check_failed([one], 0.5)


def full_disk():
  raise OSError(errno.ENOSPC, 'No space left on device', 'metrics.jsonl')


@pytest.mark.parametrize(
  'call, said',
  [
    (broken_environment, '1 of 1 episodes failed, more than'),
    (full_disk, "No space left on device: 'metrics.jsonl'; mend that, and run"),
  ],
)
def test_what_ends_a_command_on_its_way_is_a_sentence_too(
  call, said, monkeypatch, capsys
):
  error = raised(call)
  assert command_lib.refusal(error) is None and said in command_lib.failure(
    error
  )
  monkeypatch.setattr(command_lib.app, 'run', lambda *_, **__: call())
  with pytest.raises(SystemExit) as ended:
    command_lib.run(print)
  assert ended.value.code == 1
  (line,) = capsys.readouterr().err.splitlines()
  assert line.startswith('error: ') and said in line
  monkeypatch.setenv('ARL_TRACEBACK', '1')
  with pytest.raises(type(error)):
    command_lib.run(print)


@pytest.mark.parametrize('call', [lambda: int('x'), lambda: {}['x']])
def test_what_happens_to_code_is_none(call):
  error = raised(call)
  assert command_lib.refusal(error) is command_lib.failure(error) is None


def test_an_error_of_a_library_is_none():
  error = raised(pathlib.Path('/none').read_text)
  assert command_lib.refusal(error) is command_lib.failure(error) is None


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
