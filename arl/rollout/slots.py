"""Which cache slot holds which ids, and where a sequence finds its beginning.

Bookkeeping of the host alone. A slot's ids count only as long as they were
computed with the weights of now.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

Ids = Sequence[int] | np.ndarray


class Place(NamedTuple):
  """Where a sequence goes.

  Attributes:
    slot: which it takes.
    source: the slot whose cache it begins with, perhaps the same.
    shared: how many leading ids the source holds of it.
  """

  slot: int
  source: int
  shared: int


class Slots:
  """The ids of S slots, of W at most."""

  def __init__(self, count: int, width: int):
    self._ids = np.zeros((count, width), np.int32)
    self._lengths = np.zeros(count, np.int32)
    self._used = np.zeros(count, np.int64)
    self._busy = np.zeros(count, bool)
    self._clock = 0

  def free(self) -> int:
    """How many slots nothing runs in."""
    return int(np.sum(~self._busy))

  def forget(self) -> None:
    """No slot holds anything that could be continued."""
    self._lengths[:] = 0

  def held(self) -> int:
    """How many ids all slots hold."""
    return int(np.sum(self._lengths))

  def shared(self, tokens: Ids) -> int:
    """The longest beginning of a sequence that a slot holds."""
    return int(np.max(self._shared(tokens)))

  def place(self, tokens: Ids) -> Place:
    """Takes a free slot for a sequence.

    The slot that holds the longest beginning is taken where it holds nothing
    else; where it does, or is busy, its cache is copied into the free slot that
    was unused for longest. One token at least is left to feed.

    Raises:
      ValueError: no slot is free.
    """
    if not self.free():
      raise ValueError('slots: none is free; ask free() first.')
    shared = self._shared(tokens)
    oldest = int(np.argmin(np.where(self._busy, math.inf, self._used)))
    # Of several that share as much, the one that holds nothing more.
    whole = (shared == self._lengths) & ~self._busy
    source = int(np.lexsort((whole, shared))[-1])
    n = int(shared[source])
    slot = source if whole[source] and n else oldest
    self._busy[slot], self._lengths[slot] = True, 0
    return Place(slot, source, n)

  def fed(self, slot: int, start: int, tokens: Ids) -> None:
    """Notes that a slot holds these ids from position start on."""
    end = start + len(tokens)
    self._ids[slot, start:end] = tokens
    self._lengths[slot] = end

  def release(self, slot: int, keep: bool) -> None:
    """Gives a slot back; what it holds may be continued if it is to be kept."""
    self._clock += 1
    self._busy[slot], self._used[slot] = False, self._clock
    if not keep:
      self._lengths[slot] = 0

  def _shared(self, tokens: Ids) -> np.ndarray:
    """How many leading ids each slot holds of a sequence, but its last."""
    most = min(len(tokens) - 1, self._ids.shape[1])
    wanted = np.asarray(tokens[:most], np.int32)
    same = self._ids[:, :most] == wanted
    same &= np.arange(most) < self._lengths[:, None]
    ends = np.pad(same, ((0, 0), (0, 1)))  # a false at the end
    return np.argmin(ends, axis=1)
