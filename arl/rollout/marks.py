"""What the tokens of episodes share across sequences, numbered.

Columns that a batch of episodes has as a whole: no episode alone knows them.
"""

import collections
from collections.abc import Mapping, Sequence

import numpy as np

from arl import episode

MADE_HERE = ('state', 'tree', 'node', 'copies')
LEVELS = ('state', 'tree', 'node')  # of MADE_HERE


def of(name: str, episodes: Sequence[episode.Episode]) -> list[np.ndarray]:
  """A column of MADE_HERE for each episode, int32 [n].

  Episodes of different tasks share nothing. `tree` and `node` number what the
  extras of these names say, each within its task; `copies` counts the episodes
  that have a node.

  Raises:
    ValueError: an episode does not say what the column is made of.
  """
  if name == 'copies':
    return _copies(of('node', episodes))
  told = _anchors if name == 'state' else _given
  numbers: dict[tuple, int] = {}
  made = []
  for one in episodes:
    ids = np.zeros(len(one.tokens), np.int32)
    for key, where in told(one, name).items():
      ids[where] = numbers.setdefault((one.task.id, key), len(numbers))
    made.append(ids)
  return made


def _anchors(one: episode.Episode, name: str) -> Mapping[str, np.ndarray]:
  """Which tokens answer what the environment showed, by its anchor."""
  turns = np.unique(one.turn[one.mask])
  anchors = [exchange.anchor for exchange in one.exchanges]
  if len(turns) != len(anchors) or None in anchors:
    raise ValueError(
      f'pack: the episode of task {one.task.id!r} does not say what its'
      f' {len(turns)} turns answered, so it has no {name!r}; use an environment'
      ' that has an anchor.'
    )
  made: dict[str, np.ndarray] = {}
  for turn, anchor in zip(turns, anchors):
    assert anchor is not None
    here = one.turn == turn
    made[anchor] = made[anchor] | here if anchor in made else here
  return made


def _given(one: episode.Episode, name: str) -> Mapping[int, np.ndarray]:
  """Which tokens the strategy has given a number, by that number."""
  if name not in one.extras:
    raise ValueError(
      f'pack: the episode of task {one.task.id!r} has no {name!r}; choose a'
      ' rollout.strategy whose rollouts branch.'
    )
  column = one.extras[name]
  return {int(key): column == key for key in np.unique(column)}


def _copies(nodes: Sequence[np.ndarray]) -> list[np.ndarray]:
  counts = collections.Counter(
    int(number) for ids in nodes for number in np.unique(ids)
  )
  return [
    np.array([counts[int(number)] for number in ids], np.int32) for ids in nodes
  ]
