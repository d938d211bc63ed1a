"""The runs of the chaos study: started, ended, and compared bit by bit."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp
from tensorboardX.proto import event_pb2

from arl.train import metrics, watch
from experiments.studies import chaos_plan

_ROOT = pathlib.Path(__file__).parents[2]
_CONFIG = 'experiments/studies/chaos_config.py'
_LONGEST = 900.0  # seconds until a run counts as one that hangs
_TIMED = re.compile('wall|time/.*|speed/.*|share/.*')  # what a clock says
# What a server is off by: its log-probs depend, in their last bits, on which
# requests it happens to compute together.
_SERVED = re.compile('mismatch/.*')


class Case(NamedTuple):
  """A way to run.

  Attributes:
    way: of `chaos_config.WAYS`.
    steps: of the run.
    home: where its folders are.
    model: the policy that it starts from.
    flags: further ones of launch.train.
  """

  way: str
  steps: int
  home: pathlib.Path
  model: pathlib.Path
  flags: tuple[str, ...] = ()

  @property
  def whole(self) -> pathlib.Path:
    """The folder of the run that nothing happens to."""
    return self.home / 'whole'


class Ended(NamedTuple):
  """How a process ended.

  Attributes:
    code: its status; negative for a signal.
    said: what it printed.
    seconds: that it took.
  """

  code: int
  said: str
  seconds: float

  @property
  def sentence(self) -> str:
    """The last thing it said."""
    return self.said.strip().splitlines()[-1] if self.said.strip() else ''


class Started(NamedTuple):
  """A run under way.

  Attributes:
    process: of it.
    log: the file of what it prints.
    plan: what is in store for it.
    began: when, by the monotonic clock.
  """

  process: subprocess.Popen
  log: pathlib.Path
  plan: chaos_plan.Plan
  began: float

  def said(self) -> str:
    """What it printed up to now."""
    return self.log.read_text(encoding='utf-8', errors='replace')

  def end(self) -> Ended:
    """Waits for it; one that does not end is ended, and is an error."""
    try:
      code = self.process.wait(_LONGEST)
    except subprocess.TimeoutExpired as error:
      self.process.kill()
      self.process.wait()
      raise RuntimeError(f'a run hangs; see {self.log}') from error
    return Ended(code, self.said(), time.monotonic() - self.began)

  def until(self, there: Callable[[], bool]) -> None:
    """Waits until something is true of it.

    Raises:
      RuntimeError: it ended before, or that takes too long.
    """
    end = time.monotonic() + _LONGEST
    while not there():
      if self.process.poll() is not None or time.monotonic() > end:
        raise RuntimeError(f'not what was waited for; see {self.log}')
      time.sleep(0.002)

  def reaches(self, step: int) -> None:
    """Waits until it has told that a step is done."""
    self.until(lambda: f'\nstep {step}/' in self.said())

  def is_in(self, phase: str) -> bool:
    """Whether a phase is under way."""
    return phase in chaos_plan.under_way(self.plan.page)


def start(
  case: Case,
  folder: pathlib.Path,
  name: str = 'run',
  before: Sequence[str] = (),
  **planned: Any,
) -> Started:
  """Starts, or resumes, the run of a case in a folder.

  Args:
    case: the run.
    folder: its workdir.
    name: of this start, for the files beside the folder.
    before: a command in front of the run's own.
    **planned: what is in store for it, see `chaos_plan.Plan`.
  """
  folder.parent.mkdir(parents=True, exist_ok=True)
  beside = lambda end: folder.with_name(f'{folder.name}.{name}.{end}')
  plan = chaos_plan.Plan(str(beside('page')), str(beside('played')), **planned)
  pathlib.Path(plan.played).unlink(missing_ok=True)
  command = [
    *before, sys.executable, '-m', 'experiments.studies.chaos_child',
    json.dumps(plan._asdict()),
    f'--config={_CONFIG}:model={case.model},way={case.way},steps={case.steps}',
    f'--workdir={folder}', *case.flags,
  ]  # fmt: skip
  with beside('log').open('w') as log:
    process = subprocess.Popen(
      command,
      stdout=log,
      stderr=subprocess.STDOUT,
      cwd=_ROOT,
      env={
        **os.environ,
        'JAX_PLATFORMS': 'cpu',
        'JAX_COMPILATION_CACHE_DIR': str(case.model.parent / '.compiled'),
        'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0',
      },
    )
  return Started(process, beside('log'), plan, time.monotonic())


def whole(case: Case) -> None:
  """Makes the run that nothing happens to, where it is missing.

  Raises:
    RuntimeError: it does not come to its end.
  """
  if (case.whole / 'results.json').exists():
    return
  shutil.rmtree(case.whole, ignore_errors=True)
  ended = start(case, case.whole).end()
  if ended.code:
    raise RuntimeError(f'{case.whole} ended with {ended.code}: {ended.said}')


def unfinished(case: Case, folder: pathlib.Path) -> None:
  """Makes a folder what a kill after the last checkpoint had left."""
  shutil.rmtree(folder, ignore_errors=True)
  shutil.copytree(case.whole, folder)
  for name in ('results.json', 'report.html', 'curves.png'):
    (folder / name).unlink()
  shutil.rmtree(folder / 'final')


def played(plan: chaos_plan.Plan) -> list[dict[str, Any]]:
  """What each step gathered, in order; a half-written line is left out."""
  path = pathlib.Path(plan.played)
  if not path.exists():
    return []
  *lines, _ = path.read_text('utf-8').split('\n')
  return [json.loads(line) for line in lines]


# --- What is compared ---------------------------------------------------------


def _repeated(folder: pathlib.Path, row: Mapping[str, Any]) -> dict[str, Any]:
  """The metrics of a step that a run has to repeat exactly."""
  config = json.loads((folder / watch.CONFIG).read_text('utf-8'))
  served = bool(config['engine']['urls'])
  return {
    k: x
    for k, x in row.items()
    if not _TIMED.fullmatch(k) and not (served and _SERVED.fullmatch(k))
  }


def rows(folder: pathlib.Path) -> list[str]:
  """The metrics of a run, a text a step, as far as they have to be repeated."""
  if not (folder / metrics.FILE).exists():
    return []
  return [json.dumps(_repeated(folder, row)) for row in metrics.read(folder)]


def steps(folder: pathlib.Path) -> list[int]:
  """The checkpoints of a run that are whole, in order."""
  home = folder / 'checkpoints'
  there = home.iterdir() if home.exists() else ()
  return sorted(int(path.name) for path in there if path.name.isdigit())


def saving(folder: pathlib.Path) -> bool:
  """Whether a checkpoint was left in the making."""
  return any((folder / 'checkpoints').glob('*tmp*'))


def facts(folder: pathlib.Path) -> dict[str, Any]:
  """What the newest checkpoint knows beside arrays: tasks, buffers, knobs."""
  path = folder / f'checkpoints/{steps(folder)[-1]}/meta/metadata'
  made = json.loads(path.read_text('utf-8'))
  for name in ('wall', 'seal'):
    made.pop(name)
  made['metrics'] = _repeated(folder, made['metrics'])
  return made


def _bits(folder: pathlib.Path) -> list[tuple[str, str, bytes]]:
  """Every leaf of the newest checkpoint: its path, dtype and bytes."""
  path = folder / f'checkpoints/{steps(folder)[-1]}/state'
  with ocp.StandardCheckpointer() as made:
    state = made.restore(path.absolute())
  return [
    (jax.tree_util.keystr(where), str(x.dtype), np.asarray(x).tobytes())
    for where, x in jax.tree_util.tree_leaves_with_path(state)
  ]


def _board(folder: pathlib.Path) -> list[tuple[int, list[str]]]:
  """The steps that TensorBoard shows, and the names of each."""
  shown: dict[int, set[str]] = {}
  files = (folder / 'tensorboard').iterdir()
  for path in sorted(files, key=lambda file: file.stat().st_mtime_ns):
    data = path.read_bytes()
    while len(data) >= 16:
      size = int.from_bytes(data[:8], 'little')
      if len(data) < 16 + size:
        break  # a kill cut it off
      event = event_pb2.Event.FromString(data[12 : 12 + size])
      data = data[16 + size :]
      if event.session_log.status == event_pb2.SessionLog.START:
        shown = {s: names for s, names in shown.items() if s < event.step}
      for value in event.summary.value:
        shown.setdefault(event.step, set()).add(value.tag)
  return [(step, sorted(names)) for step, names in sorted(shown.items())]


def _results(folder: pathlib.Path) -> dict[str, Any]:
  made = json.loads((folder / 'results.json').read_text('utf-8'))
  return {
    k: x for k, x in made.items() if k not in ('wall_seconds', 'compiles')
  }


def _file(name: str) -> Callable[[pathlib.Path], bytes]:
  def read(folder):
    path = folder / name
    return path.read_bytes() if path.exists() else b''

  return read


_COMPARED: dict[str, Callable[[pathlib.Path], Any]] = {
  'parameters and optimizer': _bits,
  'facts of the checkpoint': facts,
  'metrics': rows,
  'TensorBoard': _board,
  'samples': _file(watch.SAMPLES),
  'warnings': _file(watch.WARNINGS),
  'the last policy': _file('final/model.safetensors'),
  'the best policy': _file('best/model.safetensors'),
  'results': _results,
}


def differences(left: pathlib.Path, right: pathlib.Path) -> list[str]:
  """In what two finished runs differ; nothing where they are the same run."""
  return [name for name, read in _COMPARED.items() if read(left) != read(right)]
