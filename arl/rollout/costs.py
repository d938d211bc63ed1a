"""What a strategy threw away, and how often it did: metrics by name.

A strategy that does more than sample has such a function as its attribute
`tells`: the episodes of a batch -> metrics, which the loop logs.
"""

from collections.abc import Callable, Sequence

import numpy as np

from arl import episode
from arl.rollout import pieces


def of(
  strategy: Callable, episodes: Sequence[episode.Episode]
) -> dict[str, float]:
  """What a strategy says of a batch; nothing where it says nothing."""
  tells = getattr(strategy, 'tells', None)
  made = tells(episodes) if tells else {}
  return {f'rollout/{name}': float(value) for name, value in made.items()}


def sampled(episodes: Sequence[episode.Episode]) -> int:
  """Tokens that an engine sampled, those thrown away included."""
  return sum(int(np.sum(one.mask)) + discarded(one) for one in episodes)


def discarded(one: episode.Episode) -> int:
  """Tokens that were sampled for an episode and thrown away."""
  return int(np.sum(one.extras.get(pieces.DISCARDED, 0)))


def steered(episodes: Sequence[episode.Episode]) -> dict[str, float]:
  """Of rows that `pieces.Steered` made.

  `tokens` that were sampled, `discarded` among them, `resample_frac`, the share
  of the turns that were sampled more than once, and `forced_frac`, the share of
  those with a token that was forced.
  """
  turns = again = forced = 0
  for one in episodes:
    turns += np.unique(one.turn[one.mask]).size
    again += int(np.count_nonzero(one.extras[pieces.DISCARDED]))
    forced += np.unique(one.turn[one.extras[pieces.FORCED]]).size
  return {
    'tokens': sampled(episodes),
    'discarded': sum(map(discarded, episodes)),
    'resample_frac': again / max(turns, 1),
    'forced_frac': forced / max(turns, 1),
  }


def branched(episodes: Sequence[episode.Episode]) -> dict[str, float]:
  """Of rollouts with `node`: `tokens` that were sampled, copies counted once.

  And `copied`, the share of the trained tokens that are copies of others.
  """
  nodes: dict[tuple[str, int], int] = {}
  total = 0
  for one in episodes:
    on = one.extras['node'][one.mask]
    total += on.size
    for node, count in zip(*np.unique(on, return_counts=True)):
      nodes[one.task.id, int(node)] = int(count)
  tokens = sum(nodes.values())
  return {'tokens': tokens, 'copied': 1 - tokens / max(total, 1)}


def played_on(episodes: Sequence[episode.Episode]) -> dict[str, float]:
  """Of rollouts that others branch off: `tokens`, and `branches` among them."""
  return {
    'tokens': sampled(episodes),
    'branches': sum(map(discarded, episodes)),
  }


def cut(episodes: Sequence[episode.Episode]) -> dict[str, float]:
  """Of groups that a strategy may have stopped: `dropped_frac`, their share.

  And `tokens` that were sampled, and `dropped`, those of them in such groups.
  """
  groups = episode.groups(episodes)
  gone = [one for one in episodes if one.status == episode.DROPPED]
  return {
    'tokens': sampled(episodes),
    'dropped': sampled(gone),
    'dropped_frac': len(episode.groups(gone)) / max(len(groups), 1),
  }
