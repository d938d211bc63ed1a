"""What befalls a run beside a kill, how it ends, and whether it goes on.

Each disaster strikes a real process of launch.train; then the same command runs
in peace, and what it leaves is compared with the run that nothing happened to.
"""

import contextlib
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from arl.sandbox import base as sandbox
from arl.sandbox import isolation, processes
from arl.train import metrics
from experiments.studies import chaos_damage, chaos_plan, chaos_runs

_SMALL = '32m'  # bytes of a disk that is filled
_LEAST = 512  # bytes of a file, where no disk can be made
_PATIENCE = 3.0  # seconds that a lost server is waited for


class Fate(NamedTuple):
  """What became of a run.

  Attributes:
    struck: what happened to it.
    code: the status it ended with; None where it was not tried.
    said: the sentence that says so.
    held: whether it ended as it should; None where it was not tried.
    differs: in what the same command, run in peace after it, left something
      else than a run that nothing happened to; None where it cannot be asked.
  """

  struck: str
  code: int | None
  said: str
  held: bool | None
  differs: list[str] | None


def _peace(case: chaos_runs.Case, folder: pathlib.Path) -> list[str]:
  """Runs the same command again; how that differs from the whole run."""
  ended = chaos_runs.start(case, folder, 'again').end()
  if ended.code:
    return [f'it ended with {ended.code}: {ended.sentence}']
  return chaos_runs.differences(case.whole, folder)


def _given_up(ended: chaos_runs.Ended, word: str, code: int) -> bool:
  """Whether it ended with a status and one sentence, which has a word."""
  said = ended.sentence
  return ended.code == code and said.startswith('error: ') and word in said


def _untested(struck: str, why: str) -> Fate:
  return Fate(struck, None, f'NOT TESTED: {why}', None, None)


# --- Disks --------------------------------------------------------------------


def damaged(case: chaos_runs.Case, part: str, way: str) -> Fate:
  """A file of the newest checkpoint is not what was written."""
  folder = case.home / f'damaged_{part}_{way}'
  chaos_runs.unfinished(case, folder)
  newest = chaos_runs.steps(folder)[-1]
  home = folder / f'checkpoints/{newest}'
  chaos_damage.WAYS[way](chaos_damage.largest(home / part))
  ended = chaos_runs.start(case, folder).end()
  notes = [x for x in ended.said.splitlines() if 'cannot be read' in x]
  went_on = f' after step {chaos_runs.steps(case.whole)[-2]}' in ended.said
  held = ended.code == 0 and len(notes) == 1 and went_on
  struck = f'the largest file of {part} is {chaos_damage.TOLD[way]}'
  differs = chaos_runs.differences(case.whole, folder)
  return Fate(struck, ended.code, ''.join(notes), held, differs)


@contextlib.contextmanager
def _disk(folder: pathlib.Path) -> Iterator[bool]:
  """A small disk at a folder; False where this user may not make one."""
  shutil.rmtree(folder, ignore_errors=True)
  folder.mkdir(parents=True)
  made = subprocess.run(
    ['mount', '-t', 'tmpfs', '-o', f'size={_SMALL}', 'chaos', str(folder)],
    capture_output=True,
  )
  try:
    yield not made.returncode
  finally:
    if not made.returncode:
      subprocess.run(['umount', str(folder)], check=True)


def _fill(folder: pathlib.Path) -> pathlib.Path:
  """Writes a file until nothing fits any more."""
  path = folder / 'ballast'
  with path.open('wb', buffering=0) as file, contextlib.suppress(OSError):
    while file.write(bytes(1 << 16)):
      pass
  return path


def full_disk(case: chaos_runs.Case) -> Fate:
  """The disk of the workdir fills up while a run is under way."""
  folder = case.home / 'full_disk'
  with _disk(folder) as small:
    run = chaos_runs.start(case, folder)
    run.reaches(3)
    if small:
      struck, ballast = 'the disk is full after step 3', _fill(folder)
    else:
      struck = f'no file may grow beyond {_LEAST} bytes after step 3'
      most = (_LEAST, resource.RLIM_INFINITY)
      resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE, most)
    ended = run.end()
    if small:
      ballast.unlink()
    held = _given_up(ended, 'same command', 1)
    differs = _peace(case, folder)
  return Fate(struck, ended.code, ended.sentence, held, differs)


def read_only(case: chaos_runs.Case) -> Fate:
  """The workdir, with a run to go on with, is on a disk that is read-only."""
  struck, bwrap = 'the workdir is read-only', shutil.which('bwrap')
  if not bwrap:
    return _untested(struck, 'bubblewrap, which mounts it so, is missing')
  folder = case.home / 'read_only'
  chaos_runs.unfinished(case, folder)
  shutil.rmtree(folder / f'checkpoints/{case.steps}')
  mounted = (bwrap, '--dev-bind', '/', '/', '--ro-bind', *[str(folder)] * 2)
  ended = chaos_runs.start(case, folder, before=mounted).end()
  if 'bwrap: ' in ended.said:
    return _untested(struck, ended.sentence)
  held = _given_up(ended, 'cannot be written', 2)
  return Fate(struck, ended.code, ended.sentence, held, _peace(case, folder))


# --- Other runs, and clocks ---------------------------------------------------


def two_at_once(case: chaos_runs.Case) -> Fate:
  """The same command is run while it runs."""
  folder = case.home / 'two_at_once'
  shutil.rmtree(folder, ignore_errors=True)
  first = chaos_runs.start(case, folder, 'first')
  first.reaches(1)
  second = chaos_runs.start(case, folder, 'second').end()
  held = _given_up(second, 'another run is writing there', 2)
  ended = first.end()
  differs = (
    [f'the first ended with {ended.code}']
    if ended.code
    else chaos_runs.differences(case.whole, folder)
  )
  struck = 'a second run in the same workdir'
  return Fate(struck, second.code, second.sentence, held, differs)


def clock(case: chaos_runs.Case) -> Fate:
  """The time of day is off by up to 12 hours, otherwise at each look."""
  folder = case.home / 'clock'
  shutil.rmtree(folder, ignore_errors=True)
  ended = chaos_runs.start(case, folder, clock=1).end()
  rows = metrics.read(folder)
  walls = [0.0, *(row['wall'] for row in rows), ended.seconds]
  spans = [x for row in rows for k, x in row.items() if k.startswith('time/')]
  held = (
    ended.code == 0
    and walls == sorted(walls)
    and all(0 <= x <= ended.seconds for x in spans)
  )
  struck = 'the time of day jumps by hours, to and fro'
  said = f'{len(spans)} durations in {len(rows)} steps, none off'
  differs = chaos_runs.differences(case.whole, folder)
  return Fate(struck, ended.code, said, held, differs)


# --- Processes that vanish ----------------------------------------------------


def _name(pid: int) -> str:
  try:
    return pathlib.Path(f'/proc/{pid}/comm').read_text().strip()
  except OSError:  # it has ended
    return ''


def _lose_sandboxes(run: chaos_runs.Started) -> None:
  """Kills every sandbox of a run as soon as a program runs in one of them."""
  while run.process.poll() is None:
    names = {pid: _name(pid) for pid in processes.tree(run.process.pid)[1:]}
    if 'sleep' in names.values():
      for pid, name in names.items():
        with contextlib.suppress(ProcessLookupError):
          if name == 'bwrap':
            os.kill(pid, signal.SIGKILL)
      return
    time.sleep(0.005)


def _isolates() -> str:
  """Why no program can be isolated here; '' where one can."""
  try:
    isolation.find()
  except sandbox.Refused as error:
    return str(error)
  return ''


def lost_program(case: chaos_runs.Case) -> Fate:
  """The programs of an environment are killed while they run, once."""
  struck = "an environment's processes are killed in mid-episode"
  if why := _isolates():
    return _untested(struck, why)
  folder = case.home / 'lost_once'
  shutil.rmtree(folder, ignore_errors=True)
  run = chaos_runs.start(case, folder)
  run.reaches(1)
  _lose_sandboxes(run)
  ended, rows = run.end(), metrics.read(folder)
  failed = sum(round(row['train/failed']) for row in rows)
  held = ended.code == 0 and failed > 0 and len(rows) == case.steps
  said = f'{failed} episodes are infrastructure_error; the run goes on'
  return Fate(struck, ended.code, said, held, None)


def lost_programs(case: chaos_runs.Case) -> Fate:
  """The same, in a run that allows no episode to fail."""
  struck = 'the same, and rollout.max_failed is 0'
  if why := _isolates():
    return _untested(struck, why)
  case = case._replace(
    home=case.home / 'strict',
    flags=(*case.flags, '--config.rollout.max_failed=0.0'),
  )
  chaos_runs.whole(case)
  folder = case.home / 'lost'
  shutil.rmtree(folder, ignore_errors=True)
  run = chaos_runs.start(case, folder)
  run.reaches(3)
  _lose_sandboxes(run)
  ended = run.end()
  held = _given_up(ended, 'infrastructure_error', 1)
  return Fate(struck, ended.code, ended.sentence, held, _peace(case, folder))


def lost_server(
  case: chaos_runs.Case, serve: Callable[[], contextlib.AbstractContextManager]
) -> Fate:
  """The server that samples is killed in the middle of a rollout.

  Args:
    case: a run with a server.
    serve: starts it; gives its process.
  """
  folder = case.home / 'lost_server'
  shutil.rmtree(folder, ignore_errors=True)
  with serve() as server:
    chaos_runs.whole(case)
    run = chaos_runs.start(case, folder, patience=_PATIENCE)
    run.reaches(3)
    run.until(lambda: run.is_in(chaos_plan.ROLLOUT))
    server.kill()
    ended = run.end()
  held = _given_up(ended, 'server', 1)
  with serve():
    differs = _peace(case, folder)
  struck = 'the server of the engine is killed in mid-generation'
  return Fate(struck, ended.code, ended.sentence, held, differs)


def kept(path: pathlib.Path, strike: Callable[[], Fate]) -> Fate:
  """A fate, from a file once it is there."""
  if not path.exists():
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(strike()._asdict()), encoding='utf-8')
  return Fate(**json.loads(path.read_text('utf-8')))
