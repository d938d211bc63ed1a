"""Knobs: numbers that the loop turns between batches, and others read.

A knob fills a scalar column that the method reads, or is read by rollouts, see
`turning`. `config.knobs` holds one block a knob, which names a function of this
module and its keyword arguments.
"""

import math
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


def cosine(
  *, init: ranges.Positive, last: ranges.Positive, batches: ranges.Count
) -> Knob:
  """From `init` to `last` along half a cosine over so many batches.

  A value says how far along it is, so a resumed run goes on from its own.
  """

  def update(value, metrics, episodes):
    del metrics, episodes
    if init == last:
      return value
    along = min(max((value - last) / (init - last), 0.0), 1.0)
    angle = math.acos(2 * along - 1) + math.pi / batches
    if angle >= math.pi * (1 - 1e-6):
      return last
    return last + (init - last) * (1 + math.cos(angle)) / 2

  return Knob(init, update)


def toward_entropy(
  *,
  target: ranges.Positive,
  init: ranges.Positive = 1.0,
  rate: ranges.Positive = 0.05,
  low: ranges.Positive = 0.7,
  high: ranges.Positive = 1.2,
) -> Knob:
  """A temperature that holds the policy's entropy near a target.

  clip(value * exp(rate * (target - entropy)), low, high), with the batch's
  `train/entropy`, in nats, at the temperature that it was sampled at. A batch
  that shows no entropy changes nothing.

  Raises:
    ValueError: a lower bound above the upper one.
  """
  if low > high:
    raise ValueError(
      f'knobs.toward_entropy: low is {low} and high {high}; swap them.'
    )

  def update(value, metrics, episodes):
    del episodes
    if 'train/entropy' not in metrics:
      return value
    error = target - float(metrics['train/entropy'])
    return min(max(value * math.exp(rate * error), low), high)

  return Knob(init, update)


def average(*, metric: str, share: ranges.OpenFraction = 0.1) -> Knob:
  """The running average of a metric, to which a batch adds `share` of its own.

  It is 0 before a batch has shown the metric, and what the first one showed
  after that.
  """

  def update(value, metrics, episodes):
    del episodes
    if metric not in metrics:
      return value
    seen = float(metrics[metric])
    return value + share * (seen - value) if value else seen

  return Knob(0.0, update)
