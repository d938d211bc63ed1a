"""Episodes to a Batch: the only door from the host to the device.

Rows have a fixed number of tokens and batches a fixed number of rows, so that
nothing is compiled twice; what is left over is padding, off the mask.
"""

import bisect
import types as types_lib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from arl import columns, episode, levels, types
from arl.rollout import marks

_MADE_HERE = ('truncated', 'step_of_group', *marks.MADE_HERE)
Wide = Mapping[str, tuple[int, ...]]
NONE: Wide = types_lib.MappingProxyType({})


def pad(
  episodes: Sequence[episode.Episode],
  *,
  rows: int,
  width: int,
  max_turns: int,
  extras: Collection[str] = (),
  wide: Wide = NONE,
) -> types.Batch:
  """One episode a row.

  Args:
    episodes: at most `rows`, each of at most `width` tokens.
    rows: B of the batch.
    width: T of the batch.
    max_turns: the most turns an episode may have.
    extras: names of further columns to pack: those of the episodes, or
      'truncated', 'step_of_group' and those of `marks`, which are made here.
    wide: by name of such a column, what follows [B, T] in its shape, if
      anything does.

  Returns:
    A batch whose levels `seq` and `group` have one id a row.

  Raises:
    ValueError: an episode is longer than a row, has too many turns, no prompt,
      no grade, no such column or one of another length, a number that is not
      finite, or there are too many.
  """
  _check(episodes, rows, width, max_turns, extras, wide)
  bins = [[i] for i in range(len(episodes))]
  made = _place(episodes, bins, (rows, width), max_turns, extras, wide)
  first = lambda level: levels.Level(level.ids[:, :1], level.num)
  return made._replace(seq=first(made.seq), group=first(made.group))


def pack(
  episodes: Sequence[episode.Episode],
  *,
  rows: int,
  width: int,
  max_turns: int,
  extras: Collection[str] = (),
  wide: Wide = NONE,
) -> types.Batch:
  """Several episodes a row: each goes, longest first, where it fits best.

  Arguments and errors as in `pad`. The filled rows come first.
  """
  _check(episodes, rows, width, max_turns, extras, wide)
  bins = _fit(episodes, width)
  return _place(episodes, bins, (rows, width), max_turns, extras, wide)


def pack_whole(
  groups: Sequence[Sequence[episode.Episode]],
  *,
  rows: int,
  width: int,
  max_turns: int,
  block: int,
  extras: Collection[str] = (),
  wide: Wide = NONE,
) -> types.Batch:
  """Packs so that no group of episodes is cut by a block of `block` rows.

  Each group goes into the first block that still has room for it. The ids of
  `seq` number the episodes in the order of the groups.

  Other arguments, and errors, as in `pad`; a group must fit into a block, and
  the blocks into the batch.
  """
  episodes = [e for group in groups for e in group]
  _check(episodes, rows, width, max_turns, extras, wide)
  fit = lambda members: _fit([episodes[i] for i in members], width)
  blocks: list[list[int]] = []
  first = 0
  for group in groups:
    members = list(range(first, first + len(group)))
    first += len(group)
    if len(fit(members)) > block:
      raise ValueError(
        f'pack: the {len(group)} episodes of task {group[0].task.id!r} do not'
        f' fit into {block} rows; raise config.updates.microbatch.'
      )
    roomy = (b for b in blocks if len(fit([*b, *members])) <= block)
    found = next(roomy, None)
    if found is None:
      blocks.append(members)
    else:
      found += members
  if len(blocks) * block > rows:
    raise ValueError(
      f'pack: the groups need {len(blocks)} blocks of {block} rows, but a batch'
      f' has {rows} rows; raise rows.'
    )
  bins: list[list[int]] = []
  for at, members in enumerate(blocks):
    bins += [[] for _ in range(at * block - len(bins))]
    bins += [[members[i] for i in one] for one in fit(members)]
  return _place(episodes, bins, (rows, width), max_turns, extras, wide)


def _fit(episodes, width) -> list[list[int]]:
  """Which episodes share a row."""
  return best_fit([len(e.tokens) for e in episodes], width)


def best_fit(lengths: Sequence[int], width: int) -> list[list[int]]:
  """Which lengths share a row: longest first, each where it fits best.

  That is the row with the least room that is enough, as in best-fit packing
  (arXiv:2404.10830), or else a new one. Nothing is split.

  Args:
    lengths: none over `width`.
    width: of a row.

  Returns:
    The indices of the lengths in each row.
  """
  bins: list[list[int]] = []
  rooms: list[tuple[int, int]] = []  # of each bin, the least first
  for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
    at = bisect.bisect_left(rooms, (lengths[i], 0))
    if at == len(rooms):
      bins.append([])
      rooms.append((width, len(bins) - 1))
    room, best = rooms.pop(at)
    bins[best].append(i)
    bisect.insort(rooms, (room - lengths[i], best))
  return bins


def _padding(name, shape, wide) -> np.ndarray:
  """The column before anything is placed in it."""
  fill = columns.COLUMNS[name].padding
  return np.full((*shape, *wide.get(name, ())), fill, columns.dtype(name))


def concatenate(batches: Sequence[types.Batch]) -> types.Batch:
  """Batches of one shape under each other, their segments kept apart."""

  def join(*parts):
    if not isinstance(parts[0], levels.Level):
      return np.concatenate(parts)
    num = parts[0].num
    ids = [part.ids + i * num for i, part in enumerate(parts)]
    stacked: Any = np.concatenate(ids)
    return levels.Level(stacked, num * len(parts))

  is_level = lambda x: isinstance(x, levels.Level)
  return jax.tree.map(join, *batches, is_leaf=is_level)


def _check(episodes, rows, width, max_turns, extras, wide):
  count = sum(not e.row for e in episodes)
  if count > rows:
    raise ValueError(
      f'pack: {count} trajectories for a batch of {rows} rows; raise rows or'
      ' pass fewer.'
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
    if not np.all(np.isfinite(e.rewards)):
      raise ValueError(
        f'pack: the episode of task {e.task.id!r} has the rewards {e.rewards};'
        ' a reward is a finite number, and what cannot be graded has the status'
        ' reward_error.'
      )
    for name in extras:
      if name not in _MADE_HERE:
        _check_extra(e, name, wide.get(name, ()))


def _check_extra(e, name, wide):
  if name not in e.extras:
    raise ValueError(
      f'pack: the episode of task {e.task.id!r} has no column {name!r}; it has'
      f' {", ".join(sorted(e.extras)) or "none"} beside the usual ones.'
    )
  column = e.extras[name]
  shape = len(e.tokens), *wide
  if np.shape(column) != shape or not np.all(np.isfinite(column)):
    each = f'an array {wide}' if wide else 'one'
    raise ValueError(
      f'pack: the episode of task {e.task.id!r} has the column {name!r}'
      f' {column}; it must be {len(e.tokens)} finite numbers, {each} a token.'
    )


def _place(episodes, bins, shape, max_turns, extras, wide) -> types.Batch:
  """Writes the episodes of each bin into a row, one after the other."""
  if len(bins) > shape[0]:
    raise ValueError(
      f'pack: the {len(episodes)} rows of these trajectories fill {len(bins)},'
      f' but a batch has {shape[0]}; lower prompts.samples or prompts.batch.'
    )

  def empty(dtype):
    return np.zeros(shape, dtype)

  tokens, positions, segments = (empty(np.int32) for _ in range(3))
  seq, group, turn = (empty(np.int32) for _ in range(3))
  mask, rewards, logp = empty(bool), empty(np.float32), empty(np.float32)
  marked = {
    name: marks.of(name, episodes) for name in extras if name in marks.MADE_HERE
  }
  given = [name for name in extras if name not in _MADE_HERE]
  others: dict[str, Any] = {name: _padding(name, shape, wide) for name in given}
  others |= {name: empty(np.int32) for name in marked}
  truncated, step = empty(bool), empty(np.int32)
  groups: dict[str, int] = {}
  # The rows of one trajectory follow each other, and are one sequence.
  trajectory = np.cumsum([not e.row for e in episodes]) - 1
  for row, members in enumerate(bins):
    at = 0
    for block, i in enumerate(members, start=1):
      e, n = episodes[i], len(episodes[i].tokens)
      where = (row, slice(at, at + n))
      tokens[where], positions[where] = e.tokens, np.arange(n)
      segments[where], seq[where] = block, trajectory[i]
      group[where] = groups.setdefault(e.task.id, len(groups))
      turn[where] = trajectory[i] * max_turns + e.turn
      mask[where], rewards[where], logp[where] = e.mask, e.rewards, e.logp
      truncated[where] = e.status != episode.FINISHED
      step[where] = group[where] * max_turns + e.turn
      for name, column in others.items():
        told = marked[name][i] if name in marked else e.extras[name]
        column[where] = told
      at += n
  rows = shape[0]
  made = {
    'truncated': truncated,
    'step_of_group': levels.Level(step, rows * max_turns),
    **others,
    **{
      name: levels.Level(others[name], rows * max_turns)
      for name in marks.LEVELS
      if name in others
    },
  }
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
    extras={name: made[name] for name in extras},
  )
