"""Knobs: numbers that the loop turns between batches, and methods read.

A knob fills a scalar column. `config.knobs` holds one block a column, which
names a function of this module and its keyword arguments.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from arl import ranges


class Knob(NamedTuple):
  """A number with a rule for its next value.

  Attributes:
    init: its value for the first batch.
    update: (value, metrics of the batch, its episodes) -> the next value.
  """

  init: float
  update: Callable[[float, Mapping[str, float], int], float]


def adaptive_kl(
  *,
  init: ranges.Positive = 0.001,
  target: ranges.Positive = 0.1,
  horizon: ranges.Positive = 1e4,
  most: ranges.Positive = 0.2,
) -> Knob:
  """A coefficient that holds the KL to the reference near a target.

  value * (1 + clip(KL / target - 1, -most, most) * episodes / horizon), with
  the mean of `train/ref_kl` over the batch (Ziegler et al., arXiv:1909.08593,
  2.2; the defaults are verl's). A batch that shows no KL changes nothing.
  """

  def update(value, metrics, episodes):
    if 'train/ref_kl' not in metrics:
      return value
    error = float(metrics['train/ref_kl']) / target - 1  # JSON keeps floats
    return value * (1 + min(max(error, -most), most) * episodes / horizon)

  return Knob(init, update)


def linear(
  *, init: ranges.Finite, last: ranges.Finite, batches: ranges.Count
) -> Knob:
  """From `init` to `last` in equal steps over so many batches, then no more."""
  step = (last - init) / batches

  def update(value, metrics, episodes):
    del metrics, episodes
    return min(max(value + step, min(init, last)), max(init, last))

  return Knob(init, update)
