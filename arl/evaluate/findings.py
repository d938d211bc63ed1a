"""What a detector says, and how it reads the metrics of a run."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from arl.evaluate import limits

Row = Mapping[str, float]  # of the metrics log, with its 'step'
TRIPS, QUIET, UNKNOWN = 'trips', 'quiet', 'unknown'


class Run(NamedTuple):
  """What is known of a run so far.

  Attributes:
    rows: of the metrics log, in order.
    config: nested, as of settings.
    samples: episodes that were kept, see `arl.train.watch`; may be none.
  """

  rows: Sequence[Row]
  config: Mapping[str, Any]
  samples: Sequence[Mapping[str, Any]] = ()


class Finding(NamedTuple):
  """One thing looked at.

  Attributes:
    name: of the detector.
    state: TRIPS, QUIET, or UNKNOWN where nothing was logged that would tell.
    evidence: the numbers, in a sentence.
    steps: from which step to which they are.
    settings: what to change, where it trips.
    because: the name of another finding that explains this one, or ''.
    sample: an episode that shows it, as text, or ''.
  """

  name: str
  state: str
  evidence: str
  steps: tuple[int, int] = (0, 0)
  settings: Sequence[str] = ()
  because: str = ''
  sample: str = ''


def found(trips: bool) -> str:
  return TRIPS if trips else QUIET


def series(rows: Sequence[Row], key: str) -> list[tuple[int, float]]:
  """(step, value) where a metric was logged and is finite."""
  return [
    (int(row['step']), row[key])
    for row in rows
    if math.isfinite(row.get(key, math.nan))
  ]


class Window(NamedTuple):
  """The mean of a metric over some steps, from `first` to `last`."""

  value: float
  first: int
  last: int


def recent(rows: Sequence[Row], key: str, after: int = 0) -> Window | None:
  """Over the last steps that logged it; None where they are too few.

  Args:
    rows: of the log.
    key: the metric.
    after: steps to leave out at the start.
  """
  points = [point for point in series(rows, key) if point[0] > after]
  return _window(points[-_size() :])


def start(rows: Sequence[Row], key: str) -> Window | None:
  """As `recent`, over the first steps, none of which is among the last."""
  points = series(rows, key)
  return _window(points[: _size()] if len(points) >= 2 * _size() else ())


def _window(points: Sequence[tuple[int, float]]) -> Window | None:
  if len(points) < _size():
    return None
  mean = float(np.mean([value for _, value in points]))
  return Window(mean, points[0][0], points[-1][0])


def _size() -> int:
  return int(limits.limit('window'))


def mastered(rows: Sequence[Row]) -> bool:
  """Whether nearly all that is tried succeeds, as of lately."""
  seen = recent(rows, 'train/success')
  return seen is not None and seen.value >= limits.limit('mastered')
