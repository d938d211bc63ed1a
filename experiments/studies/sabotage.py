"""Selections that break training on purpose, for negative controls.

They stand where `config.prompts.select` names a selection.
"""

import random

from arl import episode
from arl.prompts import select


def unmasked(groups: list[episode.Group]) -> list[episode.Group]:
  """A selection that puts what the environment said on the mask as well."""

  def expose(one):
    first = int(one.mask.argmax())  # the prompt stays off the mask
    mask = one.mask.copy()
    mask[first:] = True
    return one._replace(mask=mask)

  return [
    group._replace(episodes=[expose(e) for e in group.episodes])
    for group in select.varied(groups)
  ]


def shuffled(groups: list[episode.Group]) -> list[episode.Group]:
  """A selection whose episodes carry the rewards of others of the batch."""
  episodes = [e for group in groups for e in group.episodes]
  totals = [episode.total_reward(e) for e in episodes]
  random.Random(str(sum(len(e.tokens) for e in episodes))).shuffle(totals)
  given = iter(totals)

  def swap(one):
    rewards = one.rewards * 0
    rewards[one.mask.nonzero()[0][-1]] = next(given)
    return one._replace(rewards=rewards)

  return select.varied(
    [g._replace(episodes=[swap(e) for e in g.episodes]) for g in groups]
  )
