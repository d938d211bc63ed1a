"""The metrics log of a run: one JSON object a line, and TensorBoard scalars.

A line holds `step`, `wall` (seconds the run has spent) and the metrics, whose
names are `group/name`. The file is strict JSON: a nan or an infinity is written
as null, and its name is listed under `nonfinite`.
"""

import json
import math
import operator
import os
import pathlib
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from tensorboardX import event_file_writer
from tensorboardX.proto import event_pb2, summary_pb2

FILE = 'metrics.jsonl'
_NAME = re.compile(r'[^/\s]+(/[^/\s]+)+')


class Log(NamedTuple):
  """An open metrics log.

  Attributes:
    write: (step, metrics) -> None. Appends one line and flushes it. Values are
      real scalars; steps increase from line to line. TypeError or ValueError
      otherwise, and then nothing is written.
    close: () -> None. `contextlib.closing(log)` calls it.
  """

  write: Callable[[int, Mapping[str, Any]], None]
  close: Callable[[], None]


def open_log(workdir: str | os.PathLike, tensorboard: bool = True) -> Log:
  """Opens the log of a run, new or resumed, to append to it.

  A half-written last line is dropped, and `wall` goes on from the last line
  kept: the time a run lay dead is not counted. Call `truncate` before when
  resuming from an earlier step.

  Args:
    workdir: the run's folder, created if missing.
    tensorboard: whether to write scalars to its subfolder `tensorboard` too.
  """
  path = pathlib.Path(workdir) / FILE
  path.parent.mkdir(parents=True, exist_ok=True)
  last = _keep_whole_lines(path)
  started = time.monotonic() - last['wall']
  file = path.open('a', encoding='utf-8')
  board = _board(path.parent, last['step'] + 1) if tensorboard else None

  def write(step: int, metrics: Mapping[str, Any]) -> None:
    if step <= last['step']:
      raise ValueError(
        f'metrics: got step {step} after step {last["step"]}, expected a later '
        'one; merge the metrics of a step into one write, and truncate the log '
        'before resuming from an earlier step.'
      )
    numbers = {name: _number(name, x) for name, x in metrics.items()}
    wall = time.monotonic() - started
    file.write(_line(operator.index(step), wall, numbers))
    file.flush()
    last['step'] = step
    if board is not None:
      values = [
        summary_pb2.Summary.Value(tag=name, simple_value=number)
        for name, number in numbers.items()
      ]
      told = summary_pb2.Summary(value=values)
      _tell(board, operator.index(step), summary=told)

  def close() -> None:
    file.close()
    if board is not None:
      board.close()

  return Log(write, close)


def truncate(workdir: str | os.PathLike, step: int) -> None:
  """Drops the lines after `step`, and a half-written last line.

  Call it before `open_log`, with the step of the checkpoint the run resumes
  from. A run without a log yet is left as it is.

  Raises:
    ValueError: a whole line is not valid.
  """
  path = pathlib.Path(workdir) / FILE
  if not path.exists():
    return
  lines = [
    json.dumps(row, allow_nan=False) + '\n'
    for row in _rows(path)
    if row['step'] <= step
  ]
  # A kill in between leaves the old file or the new one.
  draft = path.with_suffix('.partial')
  draft.write_text(''.join(lines), encoding='utf-8')
  os.replace(draft, path)


def sampled_tokens(row: Mapping[str, float]) -> float:
  """How many tokens a batch took to sample, by its metrics.

  What its strategy says, branches and what was thrown away included; where it
  says nothing, the tokens of the graded episodes.
  """
  known = row['train/tokens'] * row['train/graded']
  return row.get('rollout/tokens', known)


def read(workdir: str | os.PathLike) -> list[dict[str, float]]:
  """The rows of a log, in order; a half-written last line is left out.

  What was not finite comes back as nan, so every value is a number.

  Raises:
    FileNotFoundError: the folder has no log.
    ValueError: a whole line is not valid.
  """
  return [
    {
      key: math.nan if value is None else value
      for key, value in row.items()
      if key != 'nonfinite'
    }
    for row in _rows(pathlib.Path(workdir) / FILE)
  ]


def _rows(path: pathlib.Path) -> list[dict[str, Any]]:
  """The objects of all whole lines."""
  *lines, _ = path.read_text(encoding='utf-8', errors='replace').split('\n')
  rows = []
  for number, line in enumerate(lines, start=1):
    try:
      row = json.loads(line)
      row['step'] + row['wall']  # both are there and are numbers
    except (ValueError, TypeError, KeyError) as error:
      raise ValueError(
        f'metrics: line {number} of {path} is not valid, expected an object '
        'with step and wall; remove or repair the line.'
      ) from error
    rows.append(row)
  return rows


def _keep_whole_lines(path: pathlib.Path) -> dict[str, Any]:
  """Cuts a half-written line off, and gives the step and wall time of the last.

  Step -1 and 0 seconds where there is none.
  """
  if not path.exists():
    return {'step': -1, 'wall': 0.0}
  rows = _rows(path)
  whole = path.read_bytes().rfind(b'\n') + 1
  os.truncate(path, whole)
  last = rows[-1] if rows else {'step': -1, 'wall': 0.0}
  return {'step': last['step'], 'wall': last['wall']}


def _board(
  workdir: pathlib.Path, first_step: int
) -> event_file_writer.EventsWriter:
  """A file of events; older ones of `first_step` and later do not count.

  It is written here and not by tensorboardX's thread: nobody empties that one's
  queue once a disk was full, and it is lost when a process is killed.
  """
  folder = workdir / 'tensorboard'
  folder.mkdir(exist_ok=True)
  # The step in the name keeps a run resumed within a second from writing over
  # its own file, which is otherwise named after the second.
  board = event_file_writer.EventsWriter(
    str(folder / 'events'), f'.{first_step}'
  )
  start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
  _tell(board, first_step, session_log=start)
  return board


def _tell(
  board: event_file_writer.EventsWriter, step: int, **what: Any
) -> None:
  """Writes an event down."""
  board.write_event(event_pb2.Event(wall_time=time.time(), step=step, **what))
  board.flush()


def _number(name: str, value: Any) -> float:
  """The Python number of a real scalar, of Python, numpy or JAX."""
  if not _NAME.fullmatch(name):
    raise ValueError(
      f'metrics: got the name {name!r}, expected group/name without spaces; '
      "write for example 'train/success'."
    )
  array = np.asarray(value)
  if array.ndim or array.dtype.kind not in 'iuf':
    raise TypeError(
      f'metrics: {name} has shape {array.shape} and type {array.dtype}, '
      'expected one real number; reduce or convert it first.'
    )
  return array.item()


def _line(step: int, wall: float, numbers: Mapping[str, float]) -> str:
  nonfinite = [name for name, x in numbers.items() if not math.isfinite(x)]
  row: dict[str, Any] = {'step': step, 'wall': round(wall, 3), **numbers}
  row.update(dict.fromkeys(nonfinite))
  if nonfinite:
    row['nonfinite'] = nonfinite
  return json.dumps(row, allow_nan=False) + '\n'
