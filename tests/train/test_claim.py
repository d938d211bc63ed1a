"""One run at a time in a folder, however the run before it ended."""

import pathlib
import signal
import subprocess
import sys

import pytest
import tiny

from arl.train import claim, loop

_HOLDER = """
import pathlib, sys, time
from arl.train import claim
with claim.held(pathlib.Path(sys.argv[1])):
  print('held', flush=True)
  time.sleep(600)
"""


def refused(folder):
  with pytest.raises(ValueError) as error:  # noqa: SIM117
    with claim.held(folder):
      raise AssertionError('it was let in')
  return str(error.value)


def test_a_folder_is_one_runs_until_that_is_over(tmp_path):
  folder = tmp_path / 'new' / 'run'
  with claim.held(folder):
    said = refused(folder)
    assert said.startswith(f'{folder}: another run is writing there, process ')
    with claim.held(tmp_path / 'other'):
      pass
  with claim.held(folder):
    pass


def test_a_claim_ends_with_its_process_however_that_ends(tmp_path):
  process = subprocess.Popen(
    [sys.executable, '-c', _HOLDER, str(tmp_path)],
    cwd=pathlib.Path(__file__).parents[2],
    stdout=subprocess.PIPE,
    text=True,
  )
  with process.stdout as told:
    assert told.readline() == 'held\n'
  assert f'process {process.pid} on ' in refused(tmp_path)
  process.send_signal(signal.SIGKILL)
  process.wait()
  with claim.held(tmp_path):
    pass


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
  (tmp_path / 'file').write_text('')
  for folder in (tmp_path / 'file', tmp_path / 'file' / 'run'):
    said = refused(folder)
    assert said.startswith(f'{folder} cannot be written: ')
    assert said.endswith('make it writable, or choose another workdir.')


def test_a_second_run_is_refused_before_it_builds_anything(tmp_path):
  config = tiny.config('a model that is not there')
  with claim.held(tmp_path), pytest.raises(ValueError, match='another run'):
    loop.train(config, tmp_path)
  assert {path.name for path in tmp_path.iterdir()} == {claim.FILE}
