"""Every command can be imported beside every other, and says what it does."""

import json
import pathlib
import re
import runpy
import subprocess
import sys

import pytest
from absl import flags

from arl import command

ROOT = pathlib.Path(__file__).parents[2]
TREES = ('arl', 'launch', 'experiments', 'benchmarks')
_MAIN = "if __name__ == '__main__':"
# Programs that others start, and that take no flags.
_STARTED = re.compile(
  r'benchmarks\.(worker|sides\..*)|launch\.sglang_cpu\..*'
  r'|experiments\.(agents\..*|studies\.chaos_child)'
  r'|arl\.(rewards\.nursery|train\.aot\.worker)'
)
_IMPORTS = """
import importlib, json, sys
from absl import flags
lacking = {}
for name in json.loads(sys.argv[1]):
  try:
    importlib.import_module(name)
  except ModuleNotFoundError as error:
    lacking[name] = error.name
owners = flags.FLAGS.flags_by_module_dict()
named = {name: [flag.name for flag in owners[name]] for name in owners}
print(json.dumps([lacking, named]))
"""


def modules():
  """The dotted name of every module, but packages."""
  paths = (p for tree in TREES for p in sorted((ROOT / tree).rglob('*.py')))
  for path in paths:
    parts = path.relative_to(ROOT).with_suffix('').parts
    if parts[-1] not in ('__init__', '__main__') and all(
      part.isidentifier() for part in parts
    ):
      yield '.'.join(parts), path


def commands():
  """The modules that are commands with flags."""
  for name, path in modules():
    if _MAIN in path.read_text('utf-8') and not _STARTED.fullmatch(name):
      yield name


COMMANDS = sorted(commands())


def test_all_modules_live_in_one_process():
  names = [name for name, _ in modules()]
  done = subprocess.run(
    [sys.executable, '-c', _IMPORTS, json.dumps(names)],
    cwd=ROOT,
    capture_output=True,
    text=True,
    timeout=300,
  )
  assert done.returncode == 0, done.stderr
  lacking, owners = json.loads(done.stdout.splitlines()[-1])
  ours = [name for name, lib in lacking.items() if lib.split('.')[0] in TREES]
  assert not ours
  # Only sides of benchmarks and adapters need what is not installed.
  assert all(
    name.startswith(('benchmarks.sides', 'arl.envs', 'launch.sglang_cpu'))
    for name in lacking
  ), lacking
  # No import defines a flag, so no two can be of one name.
  assert not {name for name in owners if name.split('.')[0] in TREES}


@pytest.fixture
def told(monkeypatch):
  """What --help prints of a command."""

  def run(name):
    before, texts = set(flags.FLAGS), []

    def show(main, define=lambda: None, required=()):
      define()
      texts.append(command.about(required))

    monkeypatch.setattr(command, 'run', show)
    try:
      runpy.run_module(name, run_name='__main__', alter_sys=True)
    finally:
      for flag in set(flags.FLAGS) - before:
        delattr(flags.FLAGS, flag)
    return texts[0]

  return run


def test_commands_are_found():
  assert {'launch.train', 'launch.sft', 'arl.models.convert'} <= set(COMMANDS)
  assert {'benchmarks.step', 'experiments.studies.credit'} <= set(COMMANDS)


@pytest.mark.filterwarnings('ignore:.*found in sys.modules.*')
@pytest.mark.parametrize('name', COMMANDS)
def test_help_says_how_to_run_it_and_what_its_flags_mean(told, name):
  text = told(name)
  lines = text.splitlines()
  assert f'python -m {name}' in text
  assert len(lines) <= 80 and max(map(len, lines)) <= 88
  shown = re.findall(r'^  --(\w+).*\n((?:      .*\n?)+)', text, re.MULTILINE)
  assert len(shown) == len(re.findall('^  --', text, re.MULTILINE))
  assert all(about.strip().endswith('.') for _, about in shown), shown


def test_help_has_values_choices_and_what_must_be_given(told):
  text = told('launch.evaluate')
  assert '\n  --tasks=512\n      How many tasks.' in text
  assert '--split=held_out\n      <train|held_out>: Which tasks of' in text
  assert '--output\n      The JSON file to write. Has to be given.' in text


@pytest.mark.parametrize('word', ['--help', '-h'])
def test_asking_for_help_is_no_error(word):
  done = subprocess.run(
    [sys.executable, '-m', 'launch.doctor', word],
    cwd=ROOT,
    capture_output=True,
    text=True,
    timeout=120,
  )
  assert done.returncode == 0 and done.stderr == ''
  assert 'python -m launch.doctor --workdir=DIR' in done.stdout
  assert 'absl' not in done.stdout


def test_the_package_imports_within_two_seconds():
  said = 'import time, arl; print(time.process_time())'
  took = [
    float(subprocess.check_output([sys.executable, '-c', said], cwd=ROOT))
    for _ in range(2)
  ]
  assert min(took) < 2
