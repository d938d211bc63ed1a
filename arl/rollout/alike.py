"""Rollouts that are the same beyond chance: an engine that shares its seeds.

The probability that a rollout repeats another of its task is the one that the
engine itself gave it. Groups of copies teach nothing, and nothing else shows
it: each of them is a good rollout.
"""

import warnings
from collections.abc import Sequence

import numpy as np

from arl import episode

_NATS = 25.0  # a chance of 1e-11 a pair


def warn(episodes: Sequence[episode.Episode], temperature: float) -> None:
  """Warns of rollouts of a task that independent draws would not give.

  Args:
    episodes: independent ones, each in a row of its own.
    temperature: that they were sampled at; at 0 they are alike by right.
  """
  if not temperature:
    return
  for group in episode.groups(episodes):
    seen = set()
    for one in group.episodes:
      said = one.tokens.tobytes()
      unlikely = -np.sum(one.logp[one.mask], dtype=np.float64)
      if said in seen and unlikely > _NATS:
        warnings.warn(
          f'two rollouts of task {group.task.id!r} hold the same'
          f' {np.count_nonzero(one.mask)} tokens, of which the chance is'
          f' exp(-{unlikely:.0f}): the engine gives several requests one seed;'
          ' see that it obeys that of each request.',
          stacklevel=2,
        )
        return
      seen.add(said)
