"""What the tokens of episodes share across sequences, numbered.

Columns that a batch of episodes has as a whole: no episode alone knows them.
"""

import collections
from collections.abc import Mapping, Sequence

import numpy as np

from arl import episode

MADE_HERE = ('state', 'tree', 'node', 'copies', 'stage')
LEVELS = ('state', 'tree', 'node')  # of MADE_HERE


def of(name: str, episodes: Sequence[episode.Episode]) -> list[np.ndarray]:
  """A column of MADE_HERE for each episode, int32 [n].

  Episodes of different tasks share nothing. `tree` and `node` number what the
  extras of these names say, each within its task; `copies` counts the episodes
  that have a node; `stage` is what the extra of that name says.

  Raises:
    ValueError: an episode does not say what the column is made of, or steps of
      an expert's episode are missing.
  """
  if name == 'copies':
    return _copies(of('node', episodes))
  if name == 'stage':
    return _stages(episodes)
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


def _stages(episodes: Sequence[episode.Episode]) -> list[np.ndarray]:
  """What the strategy says, once all steps of each task are there."""
  steps: dict[str, set[int]] = collections.defaultdict(set)
  for one in episodes:
    if 'expert_steps' not in one.extras:
      raise ValueError(
        f'pack: the episode of task {one.task.id!r} answers no step of an'
        " expert's; choose rollout.strategy 'expert_steps.espo'."
      )
    steps[one.task.id] |= set(one.turn[one.mask].tolist())
  for one in episodes:
    count, found = int(one.extras['expert_steps'][0]), steps[one.task.id]
    if found != {*range(count)}:
      raise ValueError(
        f"pack: of the {count} steps of the expert's episode"
        f' {one.task.id!r} only {sorted(found)} are in this update, so nothing'
        ' says what it earned in all; keep the steps of an episode together.'
      )
  return [one.extras['stage'] for one in episodes]
