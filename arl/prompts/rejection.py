"""Rejection sampling: which of a task's own episodes are worth imitating.

Selects that keep whole trajectories that succeeded, for supervised stages
(arXiv:2308.01825): `launch.sample` writes what they keep into a file of
conversations. A task that nothing solved is dropped, so hard tasks vanish.
"""

from collections.abc import Sequence

import numpy as np

from arl import episode

MOST = 4  # trajectories of a task


def select(
  ok: Sequence[bool], keys: Sequence[str], *, most: int = MOST
) -> np.ndarray:
  """Which are kept, bool [n]: the first `most` that are right and differ.

  Args:
    ok: [n], whether each is right.
    keys: [n]; two of one key are the same.
    most: at most so many.
  """
  kept = np.zeros(len(ok), bool)
  seen: set[str] = set()
  for i, key in enumerate(keys):
    if ok[i] and key not in seen and len(seen) < most:
      seen.add(key)
      kept[i] = True
  return kept


def verified(
  groups: Sequence[episode.Group], *, most: int = MOST
) -> list[episode.Group]:
  """The first right trajectories of each task, no two of one text."""
  return _selected(groups, trajectories, most)


def shortest(
  groups: Sequence[episode.Group], *, most: int = MOST
) -> list[episode.Group]:
  """The shortest right trajectories of each task, no two of one text."""
  return _selected(
    groups, lambda group: sorted(trajectories(group), key=length), most
  )


def verified_once(groups: Sequence[episode.Group]) -> list[episode.Group]:
  """The first right trajectory of each task."""
  return verified(groups, most=1)


def uncertain(
  groups: Sequence[episode.Group], *, low: float = 0.5, high: float = 0.95
) -> list[episode.Group]:
  """Of right trajectories, the turns whose likelihood lies between bounds.

  What WebRL (arXiv:2411.02337) replays: a turn counts if exp of the mean
  log-prob of its tokens, as sampled, is above `low` and not above `high`; the
  others go off the mask. Rows without a turn that counts are dropped, and so
  are those of unknown log-probs. `webrl.successes` replays old ones as well, at
  most twice as many as new ones and scored by the policy of now.
  """
  made = []
  for group in groups:
    found = [one for rows in trajectories(group) if right(rows) for one in rows]
    cut = [between(one, low, high) for one in found]
    kept = [one for one in cut if np.any(one.mask)]
    if kept:
      made.append(group._replace(episodes=[e._replace(row=0) for e in kept]))
  return made


def between(one: episode.Episode, low: float, high: float) -> episode.Episode:
  """The episode with the turns whose likelihood is in (low, high] alone."""
  mask = np.zeros_like(one.mask)
  for turn in np.unique(one.turn[one.mask]):
    mine = one.mask & (one.turn == turn)
    mask |= mine & (low < np.exp(np.mean(one.logp[mine])) <= high)
  return one._replace(mask=mask, logp=np.where(mask, one.logp, 0))


def _selected(groups, ordered, most) -> list[episode.Group]:
  made = []
  for group in groups:
    found = ordered(group)
    kept = select(
      [right(t) for t in found], [text(t) for t in found], most=most
    )
    rows = [one for i in np.flatnonzero(kept) for one in found[i]]
    if rows:
      made.append(group._replace(episodes=rows))
  return made


def trajectories(group: episode.Group) -> list[list[episode.Episode]]:
  """The rows of each graded trajectory of a task."""
  return [
    rows
    for rows in episode.trajectories(group.episodes)
    if episode.graded(rows[0])
  ]


def right(rows: Sequence[episode.Episode]) -> bool:
  """Whether a trajectory earned 1."""
  return sum(map(episode.total_reward, rows)) >= episode.SOLVED


def length(rows: Sequence[episode.Episode]) -> int:
  """The tokens of the policy in a trajectory."""
  return sum(int(np.count_nonzero(one.mask)) for one in rows)


def text(rows: Sequence[episode.Episode]) -> str:
  """What was done in a trajectory, white space and capitals aside."""
  actions = [exchange.action for one in rows for exchange in one.exchanges]
  return '\n'.join(' '.join(action.lower().split()) for action in actions)
