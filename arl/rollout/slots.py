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
    shared: how many leading ids the source holds of it; all, if it holds these
      and no other.
  """

  slot: int
  source: int
  shared: int


_NONE = -1  # beyond the ids of a slot


class Slots:
  """The ids of S slots, of W at most."""

  def __init__(self, count: int, width: int):
    self._ids = np.full((count, width), _NONE, np.int32)
    self._lengths = np.zeros(count, np.int32)
    self._used = np.zeros(count, np.int64)
    self._busy = np.zeros(count, bool)
    self._clock, self._free = 0, count

  def free(self) -> int:
    """How many slots nothing runs in."""
    return self._free

  def forget(self) -> None:
    """No slot holds anything that could be continued."""
    self._lengths[:], self._ids[:] = 0, _NONE

  def held(self) -> int:
    """How many ids all slots hold."""
    return int(np.sum(self._lengths))

  def shared(self, tokens: Ids) -> int:
    """The longest beginning of a sequence that a slot holds."""
    if not np.any(self._lengths):
      return 0
    return int(np.max(self._shared(tokens)))

  def place(self, tokens: Ids) -> Place:
    """Takes a free slot for a sequence.

    The slot that holds the longest beginning is taken where it holds nothing
    else; where it does, or is busy, its cache is copied into the free slot that
    was unused for longest. One token at least is left to feed, unless a slot
    holds just these: what its last one was computed to is known as well.

    Raises:
      ValueError: no slot is free.
    """
    if not self._free:
      raise ValueError('slots: none is free; ask free() first.')
    shared = self._shared(tokens)
    shared += self._same(tokens, shared)
    oldest = int(np.argmin(np.where(self._busy, math.inf, self._used)))
    # Of several that share as much, the one that holds nothing more.
    whole = (shared == self._lengths) & ~self._busy
    source = int(np.lexsort((whole, shared))[-1])
    n = int(shared[source])
    goes_on = bool(whole[source]) and n > 0
    slot = source if goes_on else oldest
    self._busy[slot] = True
    self._free -= 1
    if not goes_on:  # what the last id of a slot that is cut gave is not known
      self._clear(slot)
    return Place(slot, source, n)

  def fed(self, slot: int, start: int, tokens: Ids) -> None:
    """Notes that a slot holds these ids from position start on."""
    end = start + len(tokens)
    self._ids[slot, start:end] = tokens
    self._ids[slot, end:] = _NONE
    self._lengths[slot] = end

  def release(self, slot: int, keep: bool) -> None:
    """Gives a slot back; what it holds may be continued if it is to be kept."""
    self._clock += 1
    self._free += 1
    self._busy[slot], self._used[slot] = False, self._clock
    if not keep:
      self._clear(slot)

  def _clear(self, slot):
    self._lengths[slot], self._ids[slot] = 0, _NONE

  def _same(self, tokens: Ids, shared: np.ndarray) -> np.ndarray:
    """Which slots hold a sequence to the last id and no more."""
    n = len(tokens)
    whole = (shared == n - 1) & (self._lengths == n)
    return whole & (self._ids[:, n - 1] == tokens[-1])

  def _shared(self, tokens: Ids) -> np.ndarray:
    """How many leading ids each slot holds of a sequence, but its last."""
    most = min(len(tokens) - 1, self._ids.shape[1])
    wanted = np.asarray(tokens[:most], np.int32)
    if not most:
      return np.zeros(len(self._ids), np.int64)
    same = self._ids[:, :most] == wanted
    first = np.argmin(same, axis=1)
    return np.where(same[np.arange(len(same)), first], most, first)
