"""Losses weighed by group: what was drawn by chance, or stands for others.

The weight multiplies those of the tokens after they were made, so a mean stays
what it is and a group of weight 2 counts as two, in every term of the method.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import ml_collections
import numpy as np

from arl import episode, types

COLUMN = 'sampling_weight'


def wanted(config: ml_collections.ConfigDict) -> bool:
  """Whether groups of a run with this config weigh differently."""
  p = config.prompts
  return bool(p.scale) or p.replay.name != 'replay.none'


def weighed(method: types.Method) -> types.Method:
  """The method whose losses the column `sampling_weight` weighs."""

  def weigh(columns, credits):
    mine = jnp.where(columns['mask'], columns[COLUMN], 0)
    return {
      name: x if name == 'metrics' else x * mine.astype(x.dtype)
      for name, x in method.weigh(columns, credits).items()
    }

  return method._replace(weigh=weigh, needs=method.needs | {COLUMN})


def told(one: episode.Episode) -> episode.Episode:
  """The episode with a weight: its own, or 1."""
  if COLUMN in one.extras:
    return one
  return _with(one, 1.0)


def apply(
  groups: Sequence[episode.Group], weights: Sequence[float]
) -> list[episode.Group]:
  """The groups with their weights."""
  return [
    group._replace(episodes=[_with(one, x) for one in group.episodes])
    for group, x in zip(groups, weights, strict=True)
  ]


def _with(one: episode.Episode, weight: float) -> episode.Episode:
  column = np.full(len(one.tokens), weight, np.float32)
  return one._replace(extras={**one.extras, COLUMN: column})
