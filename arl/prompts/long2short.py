"""From long answers to short ones: Kimi k1.5's Long2Short (arXiv:2501.12599).

Three of its four recipes select among a policy's own answers, or weigh them:
shortest rejection sampling and the pairs of DPO are here, RL with a length
penalty is `shaping.shortest` (`arl.rewards`). The fourth, the average of two
models, is `launch.merge`.
"""

from collections.abc import Sequence

import numpy as np

from arl import episode
from arl.prompts import rejection


def pick_shortest_correct(
  lengths: Sequence[float], ok: Sequence[bool]
) -> int | None:
  """The index of the shortest right answer, the first of several; or None."""
  found = np.flatnonzero(ok)
  if not found.size:
    return None
  return int(found[np.argmin(np.asarray(lengths)[found])])


def long2short_pairs(
  lengths: Sequence[float], ok: Sequence[bool], *, factor: float = 1.5
) -> list[tuple[int, int]]:
  """(chosen, rejected) of each pair.

  Chosen is the shortest right answer, rejected each wrong one that is longer,
  and each right one that is `factor` times as long or more.
  """
  best = pick_shortest_correct(lengths, ok)
  if best is None:
    return []

  def rejected(i):
    if ok[i]:
      return i != best and lengths[i] >= factor * lengths[best]
    return lengths[i] > lengths[best]

  return [(best, i) for i in range(len(ok)) if rejected(i)]


def shortest(groups: Sequence[episode.Group]) -> list[episode.Group]:
  """The shortest right trajectory of each task that has one."""
  return rejection.shortest(groups, most=1)


def pairs(
  groups: Sequence[episode.Group], *, factor: float = 1.5
) -> list[episode.Group]:
  """The pairs of each task, for the preference methods: chosen 1, rejected 0.

  Each pair is a group of its own, by its task id, and what its members had
  earned is forgotten. Of a task with n episodes there are n / 2 pairs at most,
  so that they fit where the episodes would; those with the longest rejected
  answer come first. Trajectories of several rows stay whole.
  """
  made = []
  for group in groups:
    found = rejection.trajectories(group)
    lengths = [rejection.length(rows) for rows in found]
    ok = [rejection.right(rows) for rows in found]
    several = long2short_pairs(lengths, ok, factor=factor)
    several.sort(key=lambda pair: -lengths[pair[1]])  # stable
    for number, (best, other) in enumerate(several[: len(found) // 2]):
      task = group.task._replace(id=f'{group.task.id}/pair/{number}')
      rows = [*_graded(found[best], task, 1.0), *_graded(found[other], task, 0)]
      made.append(episode.Group(task, rows))
  return made


def _graded(rows, task, reward) -> list[episode.Episode]:
  """The rows of a trajectory that earned `reward`, on its last token."""
  made = []
  for one in rows:
    rewards = np.zeros_like(one.rewards)
    if one is rows[-1]:
      rewards[np.flatnonzero(one.mask)[-1:]] = reward
    made.append(one._replace(task=task, rewards=rewards))
  return made
