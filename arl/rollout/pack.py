"""Episodes to a Batch: the only door from the host to the device.

Rows have a fixed number of tokens and batches a fixed number of rows, so that
nothing is compiled twice; what is left over is padding, off the mask.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from arl import episode, levels, types


def pad(
  episodes: Sequence[episode.Episode], *, rows: int, width: int, max_turns: int
) -> types.Batch:
  """One episode a row.

  Args:
    episodes: at most `rows`, each of at most `width` tokens.
    rows: B of the batch.
    width: T of the batch.
    max_turns: the most turns an episode may have.

  Raises:
    ValueError: an episode is longer than a row, has too many turns, no prompt
      or no grade, or there are too many.
  """
  _check(episodes, rows, width, max_turns)
  bins = [[i] for i in range(len(episodes))]
  return _place(episodes, bins, (rows, width), max_turns)


def pack(
  episodes: Sequence[episode.Episode], *, rows: int, width: int, max_turns: int
) -> types.Batch:
  """Several episodes a row: each goes, longest first, where it fits best.

  Arguments and errors as in `pad`. The filled rows come first.
  """
  _check(episodes, rows, width, max_turns)
  order = sorted(range(len(episodes)), key=lambda i: -len(episodes[i].tokens))
  bins: list[list[int]] = []
  room: list[int] = []
  for i in order:
    n = len(episodes[i].tokens)
    fits = [b for b, left in enumerate(room) if left >= n]
    if fits:
      best = min(fits, key=lambda b: room[b])
      bins[best].append(i)
      room[best] -= n
    else:
      bins.append([i])
      room.append(width - n)
  return _place(episodes, bins, (rows, width), max_turns)


def concatenate(batches: Sequence[types.Batch]) -> types.Batch:
  """Batches of one shape under each other, their segments kept apart."""

  def join(*parts):
    if not isinstance(parts[0], levels.Level):
      return np.concatenate(parts)
    num = parts[0].num
    ids = [part.ids + i * num for i, part in enumerate(parts)]
    stacked: Any = np.concatenate(ids)
    return levels.Level(stacked, num * len(parts))

  return types.Batch(*(join(*parts) for parts in zip(*batches)))


def _check(episodes, rows, width, max_turns):
  if len(episodes) > rows:
    raise ValueError(
      f'pack: {len(episodes)} episodes for a batch of {rows} rows; raise rows'
      ' or pass fewer episodes.'
    )
  for e in episodes:
    if not len(e.tokens) or e.mask[0]:
      raise ValueError(
        f'pack: the episode of task {e.task.id!r} does not begin with a prompt;'
        ' nothing says how likely its first token is, so give it one.'
      )
    if len(e.tokens) > width:
      raise ValueError(
        f'pack: the episode of task {e.task.id!r} has {len(e.tokens)} tokens,'
        f' but a row holds {width}; raise rollout.context or cut it earlier.'
      )
    if e.turn[-1] >= max_turns:
      raise ValueError(
        f'pack: the episode of task {e.task.id!r} has {e.turn[-1] + 1} turns,'
        f' but max_turns is {max_turns}; raise rollout.max_turns.'
      )
    if not episode.graded(e):
      raise ValueError(
        f'pack: the episode of task {e.task.id!r} has no grade ({e.status}:'
        f' {e.error}); leave it out.'
      )


def _place(episodes, bins, shape, max_turns) -> types.Batch:
  """Writes the episodes of each bin into a row, one after the other."""

  def empty(dtype):
    return np.zeros(shape, dtype)

  tokens, positions, segments = (empty(np.int32) for _ in range(3))
  seq, group, turn = (empty(np.int32) for _ in range(3))
  mask, rewards, logp = empty(bool), empty(np.float32), empty(np.float32)
  groups: dict[str, int] = {}
  for row, members in enumerate(bins):
    at = 0
    for block, i in enumerate(members, start=1):
      e, n = episodes[i], len(episodes[i].tokens)
      where = (row, slice(at, at + n))
      tokens[where], positions[where] = e.tokens, np.arange(n)
      segments[where], seq[where] = block, i
      group[where] = groups.setdefault(e.task.id, len(groups))
      turn[where] = i * max_turns + e.turn
      mask[where], rewards[where], logp[where] = e.mask, e.rewards, e.logp
      at += n
  rows = shape[0]
  return types.Batch(
    tokens=tokens,
    positions=positions,
    segments=segments,
    mask=mask,
    rewards=rewards,
    rollout_logp=logp,
    seq=levels.Level(seq, rows),
    group=levels.Level(group, rows),
    turn=levels.Level(turn, rows * max_turns),
  )
