"""launch/sglang.sh: what it refuses, and what it starts."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def run(*arguments, **environment):
  return subprocess.run(
    [str(ROOT / 'launch' / 'sglang.sh'), *arguments],
    env={**os.environ, **environment},
    capture_output=True,
    text=True,
    timeout=60,
  )


def test_it_explains_itself():
  done = run('--help')
  assert done.returncode == 0
  assert '--enable-return-routed-experts' in done.stdout


@pytest.mark.parametrize(
  'arguments, what',
  [
    ((), "got ''"),
    (('nowhere',), "got 'nowhere'"),
    (('nowhere', '--port', 'x'), "got 'x'"),
  ],
)
def test_it_refuses_what_it_cannot_serve(arguments, what):
  done = run(*arguments)
  assert done.returncode == 1
  assert what in done.stderr


def test_without_a_gpu_it_starts_the_stand_ins(tmp_path):
  (tmp_path / 'model').mkdir()
  (tmp_path / 'model' / 'config.json').write_text('{}')
  venv, cpu = tmp_path / 'venv', ROOT / 'launch' / 'sglang_cpu'
  (venv / 'bin').mkdir(parents=True)
  python = venv / 'bin' / 'python'
  python.write_text('#!/bin/sh\necho "$@"\n')
  python.chmod(0o755)
  stamp = subprocess.run(
    ['cksum'],
    stdin=(cpu / 'requirements.txt').open(),
    capture_output=True,
    text=True,
  )
  (venv / 'sglang-installed').write_text(stamp.stdout)
  done = run(
    str(tmp_path / 'model'), '--cpu', '--port', '31234', '--tp-size', '2',
    ARL_SGLANG_VENV=str(venv),
  )  # fmt: skip
  assert done.returncode == 0, done.stderr
  *_, started = done.stdout.strip().splitlines()
  words = started.split()
  assert words[0] == str(cpu / 'serve.py')
  assert words[words.index('--port') + 1] == '31234'
  assert words[words.index('--weight-version') + 1] == '0'
  assert '--enable-deterministic-inference' in words
  assert words[-2:] == ['--tp-size', '2']
