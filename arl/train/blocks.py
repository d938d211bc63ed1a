"""How many rows an update has, and how many of them hold whole groups."""

from collections.abc import Callable

import ml_collections

from arl import names, types
from arl.train import choosing, prefixes


def most_of(strategy: Callable) -> int:
  """How many times prompts.samples a task may have: its attribute `most`."""
  return getattr(strategy, 'most', 1)


def check(
  config: ml_collections.ConfigDict, made: types.Method, strategy: Callable
) -> None:
  """Refuses groups of different sizes where whole ones share a microbatch.

  Raises:
    ValueError: naming the strategy.
  """
  if most_of(strategy) > 1 and whole(config, made):
    raise ValueError(
      f'{config.rollout.strategy} gives tasks different numbers of rollouts,'
      f' but {config.method.name}, or updates.prefixes, keeps whole groups in a'
      ' microbatch; choose strategies.multi_turn, or another method.'
    )


def whole(config: ml_collections.ConfigDict, made: types.Method) -> int:
  """Rows that no group of rollouts is cut by: a microbatch; 0 for any.

  A loss may compare the rollouts of a prompt, and a trie merges them.
  """
  shared = config.updates.prefixes == prefixes.SHARED
  return config.updates.microbatch if made.whole or shared else 0


def rows(config: ml_collections.ConfigDict, made: types.Method) -> int:
  """Rows of one update: one for each of its episodes, in whole microbatches.

  Where a microbatch must not cut a group, it holds as many whole ones as it has
  room for. Where groups differ in size, an update has room for one that is too
  many.
  """
  u, p = config.updates, config.prompts
  most = most_of(names.resolve(config.rollout.strategy, 'arl.rollout'))
  if most > 1:  # the emptiest update is not fuller than the mean of all
    total = choosing.most_groups(config) * p.samples
    fullest = -(-total // u.per_batch) + most * p.samples
    return -(-fullest // u.microbatch) * u.microbatch
  groups = -(-choosing.most_groups(config) // u.per_batch)
  if whole(config, made):
    return -(-groups // (u.microbatch // p.samples)) * u.microbatch
  return -(-groups * p.samples // u.microbatch) * u.microbatch
