"""When a run succeeds often enough, batch by batch."""

from typing import NamedTuple

import numpy as np

from arl.report import curves
from arl.train import metrics

AT_ONCE = 4  # batches in a row whose mean counts


class Moment(NamedTuple):
  """What a run took until then: tokens sampled, seconds since its first batch.

  What was compiled is in the seconds.
  """

  tokens: float
  seconds: float


def running(rows: curves.Rows) -> list[float]:
  """Success of batches, as the mean of the last AT_ONCE, or of all so far."""
  success = [row['train/success'] for row in rows]
  ends = range(1, len(success) + 1)
  return [float(np.mean(success[max(0, n - AT_ONCE) : n])) for n in ends]


def reached(rows: curves.Rows, least: float) -> Moment | None:
  """When AT_ONCE batches in a row first succeed as often; None for never.

  Args:
    rows: the metrics of a run.
    least: their mean success.
  """
  sampled = np.cumsum([metrics.sampled_tokens(row) for row in rows])
  for i, success in enumerate(running(rows)):
    if i + 1 >= AT_ONCE and success >= least:
      return Moment(float(sampled[i]), rows[i]['wall'])
  return None
