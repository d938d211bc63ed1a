"""By which rule each slot of a pool is sampled from: a table on the host.

It is handed to the device with each pass, whole or in part.
"""

from collections.abc import Sequence

import jax
import numpy as np

from arl.rollout import pool, sampler, tickets

_STOPS = 8  # a row has room for so many stop ids, or twice, four times, ...
_WATCHED = 4  # the same for watched ids, if there are any


def room(count: int, least: int) -> int:
  """The smallest power of two times `least` that holds so many."""
  room = least
  while room < count:
    room *= 2
  return room


def empty(
  count: int, vocab: int, stops: int = _STOPS, watched: int = 0
) -> pool.Steps:
  """A table of so many slots, none of which is sampled from."""
  column = lambda kind: np.zeros((count, 1), kind)
  whole = lambda: np.zeros(count, np.int32)
  numbers = sampler.Numbers(
    temperature=column(np.float32) + np.float32(1),
    greedy=column(bool),
    top_p=column(np.float32) + np.float32(1),
    top_k=column(np.int32),
    min_p=column(np.float32),
    banned=np.full((count, stops), vocab, np.int32),
    watched=np.zeros((count, watched), np.int32),
  )
  return pool.Steps(
    slot=np.arange(count, dtype=np.int32),
    length=whole(),
    done=whole(),
    limit=whole(),
    live=np.zeros(count, bool),
    keys=np.zeros((count, 2), np.uint32),
    stop=np.full((count, stops), -1, np.int32),
    numbers=numbers,
  )


def seat(board: pool.Steps, row: tickets.Ticket, vocab: int) -> pool.Steps:
  """The table with a row's rule at its slot; a wider one if it has to be."""
  stop, watched = row.sampling.stop, row.wanted.watched
  wide = board.stop.shape[1], board.numbers.watched.shape[1]
  if len(stop) > wide[0] or len(watched) > wide[1]:
    board = _widened(board, len(stop), len(watched), vocab)
  at, greedy = row.slot, row.sampling.temperature == 0
  board.limit[at], board.keys[at] = row.request.max_tokens, row.key
  board.stop[at] = -1
  board.stop[at, : len(stop)] = stop
  numbers = board.numbers
  numbers.greedy[at] = greedy
  numbers.temperature[at] = 1 if greedy else row.sampling.temperature
  numbers.top_p[at] = row.sampling.top_p if row.truncated else 1
  numbers.top_k[at] = row.sampling.top_k if row.truncated else 0
  numbers.min_p[at] = row.wanted.min_p if row.truncated else 0
  numbers.watched[at] = 0
  numbers.watched[at, : len(watched)] = watched
  return board


def start(
  board: pool.Steps, rows: Sequence[tickets.Ticket], steps: int, vocab: int
) -> int:
  """Notes which rows are sampled from next, and where they are.

  Returns:
    For how many steps that holds, of those wanted: a row that may not stop yet
    may later.
  """
  places = np.array([row.slot for row in rows])
  board.live[:] = False
  board.live[places] = True
  board.length[places] = [row.fed for row in rows]
  board.done[places] = [row.done for row in rows]
  board.numbers.banned[:] = vocab
  for row in rows:
    if row.done < row.wanted.least:
      steps = min(steps, row.wanted.least - row.done)
      n = len(row.sampling.stop)
      board.numbers.banned[row.slot, :n] = row.sampling.stop
  return steps


def _widened(board, stops, watched, vocab):
  """The table with room for more stop and watched ids of a row."""
  stops = max(room(stops, _STOPS), board.stop.shape[1])
  watched = room(watched, _WATCHED) if watched else 0
  watched = max(watched, board.numbers.watched.shape[1])
  wide = empty(len(board.slot), vocab, stops, watched)
  return jax.tree.map(_over, wide, board)


def _over(wide, given):
  """An array with another in its first columns."""
  if given.ndim < 2:
    return given
  wide[:, : given.shape[1]] = given
  return wide
