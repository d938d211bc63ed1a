"""What runs, what waits and when weights change: one turn after another.

All of it belongs to one thread; arl.rollout.continuous speaks to it.
"""

import collections
import concurrent.futures
from typing import Any

import numpy as np

from arl.rollout import decoding, engine, mailbox, passes, tickets
from arl.rollout import slots as slots_lib

_ROUNDS = 4  # feeding calls before what runs is sampled from again
_PIECE = 4  # tokens of a call while somebody reads along
_SEATS = 16  # a pass stops for others when one in so many rows has ended


class Scheduler:
  """Requests over the slots of a pool.

  Attributes:
    version: of the weights.
    paused: the mode of the pause, or ''.
    mail: what has come of requests, for who runs the turns to send.
    totals: tokens fed, found in caches and sampled.
  """

  def __init__(
    self, made: passes.Passes, experts: tuple[int, int], share: float
  ):
    """Makes one with nothing to do.

    Args:
      made: the pool.
      experts: layers and experts of a token, of a mixture.
      share: of the rows that run; when so many of them have ended, a pass stops
        for what has come of them. Others can come in their place sooner.
    """
    self.version, self.paused = 0, ''
    self.mail = mailbox.Mailbox()
    self.totals = {'fed': 0, 'cached': 0, 'sampled': 0}
    self._passes, self._experts, self._share = made, experts, share
    self._slots = slots_lib.Slots(made.count, made.width)
    self._waiting: collections.deque[tickets.Ticket] = collections.deque()
    self._running: list[tickets.Ticket] = []
    self._weights: collections.deque = collections.deque()
    self._scores: dict[tuple, list[tuple[Any, concurrent.futures.Future]]] = {}
    self._epoch, self._spoilt = 0, False

  def add(self, row: tickets.Ticket) -> None:
    """Takes a request in."""
    self._waiting.append(row)

  def add_weights(
    self, params: Any, version: int, done: concurrent.futures.Future
  ) -> None:
    """Takes weights in; `done` is told when they are used."""
    self._weights.append((params, version, done))

  def take_weights(self, params: Any, version: int) -> None:
    """Takes new weights now."""
    self._passes.put_params(params)
    if self._spoilt and not self._running:
      self._passes.reset()  # of what is no number a part would stay
      self._spoilt = False
    self.version, self._epoch = version, self._epoch + 1
    self._slots.forget()
    for row in self._running:  # the new weights read its last token
      row.fed = min(row.fed, len(row.tokens) - 1)

  def known(self, row: tickets.Ticket) -> int:
    """How many leading tokens of a request some slot holds."""
    return self._slots.shared(row.tokens)

  def add_scores(
    self, kind: tuple, sequences: Any, done: concurrent.futures.Future
  ) -> None:
    """Takes sequences to score in; those of a kind are scored together.

    Args:
      kind: temperature, top and watched, as Passes.score takes them.
      sequences: lists of ids.
      done: is told what Passes.score tells of each.
    """
    self._scores.setdefault(kind, []).append((sequences, done))

  def load(self) -> dict[str, int]:
    """How much runs and waits, and tokens fed, found in caches and sampled."""
    return {
      'running': len(self._running),
      'waiting': len(self._waiting),
      'held': self._slots.held(),
      'slots': self._passes.count,
      **self.totals,
    }

  def busy(self) -> bool:
    """Whether a turn would do something."""
    if self._weights or self._scores:
      return True
    return not self.paused and bool(self._running or self._waiting)

  def turn(self) -> None:
    """Scores, swaps weights, admits, feeds and samples a few tokens."""
    self._score()
    self._take_weights()
    if self.paused:
      return
    for _ in range(_ROUNDS):
      if not self._feed(self._admit()):
        break
    self._decode()

  def abort(self, name: str | None) -> None:
    """Ends requests of a name, or all for None, with the tokens so far."""
    for row in [*self._running, *self._waiting]:
      if name is None or row.name == name:
        if row.slot < 0:
          self._waiting.remove(row)
        self._end(row, engine.ABORT)

  def pause(self, mode: str) -> None:
    """Stops; see ContinuousEngine.pause."""
    if mode == 'abort':
      self.abort(None)
    elif mode == 'retract':
      for row in self._running:
        self._release(row)
        row.retractions += 1
      self._waiting.extendleft(reversed(self._running))
      self._running = []
    self.paused = mode

  def resume(self) -> None:
    """Goes on after a pause."""
    self.paused = ''

  def flush(self) -> bool:
    """Forgets what slots hold, unless something runs."""
    if not self._running:
      self._slots.forget()
    return not self._running

  def fail(self, error: BaseException) -> None:
    """Tells everybody who waits, and forgets everything."""
    rows = [*self._running, *self._waiting]
    told = [done for asked in self._scores.values() for _, done in asked]
    told += [done for _, _, done in self._weights]
    self._weights, self._scores = collections.deque(), {}
    self._running, self._waiting = [], collections.deque()
    for row in rows:
      if row.slot >= 0:
        self._slots.release(row.slot, False)
      failure = RuntimeError(f'the engine failed: {error}; ask again.')
      failure.__cause__ = error
      self.mail.post(row, failure, True)
    for done in told:
      done.set_exception(RuntimeError(f'the engine failed: {error}'))
    self._slots.forget()

  def _score(self):
    while self._scores:
      kind, asked = self._scores.popitem()
      together = [ids for sequences, _ in asked for ids in sequences]
      try:
        told = iter(self._passes.score(together, *kind))
      except Exception as error:
        for _, done in asked:
          done.set_exception(error)
        continue
      for sequences, done in asked:
        done.set_result([next(told) for _ in sequences])

  def _take_weights(self):
    while self._weights and (self.paused or not self._running):
      params, version, done = self._weights.popleft()
      try:
        self.take_weights(params, version)
      except Exception as error:
        done.set_exception(error)
        continue
      done.set_result(None)

  def _admit(self) -> dict[int, int]:
    """Gives slots to what waits; gives the sources by slot.

    Of requests that begin alike one is admitted, and the others once they can
    continue what was computed of it: a prompt is computed once for its group.
    """
    sources: dict[int, int] = {}
    openings: set[bytes] = set()
    for row in self._running:
      if row.fed < len(row.tokens):
        openings |= _openings(row)
    later, admitted = [], []
    while self._waiting and self._slots.free() and not self._weights:
      row = self._waiting.popleft()
      if self._better_later(row, openings):
        later.append(row)
        continue
      place = self._slots.place(row.tokens)
      sources[place.slot] = place.source
      row.admit(place.slot, place.shared, self._epoch)
      self.totals['cached'] += place.shared
      openings |= _openings(row)
      admitted.append(row)
    self._waiting.extendleft(reversed(later))
    self._running += admitted
    self._passes.fold([row for row in admitted if row.key is None])
    for row in admitted:
      self._passes.seat(row)
    return sources

  def _better_later(self, row, openings):
    """Whether what is being fed computes all of a row, or a chunk or more."""
    alike = _openings(row) & openings
    if not alike:
      return False
    held = self._slots.shared(row.tokens)
    lacks = len(row.tokens) - 1 - held
    if row.tokens.tobytes() in alike:
      return lacks > 0
    return lacks >= decoding.CHUNK and held < decoding.CHUNK

  def _feed(self, sources: dict[int, int]) -> bool:
    """Feeds what lacks tokens or a beginning; whether anything did."""
    begins = lambda row: sources.get(row.slot, row.slot)
    rows = [
      row
      for row in self._running
      if row.fed < len(row.tokens) or begins(row) != row.slot
    ]
    if not rows:
      return False
    begin = [begins(row) for row in rows]
    self.totals['fed'] += self._passes.feed(rows, begin)
    for row in rows:
      if row.epoch == self._epoch:
        self._slots.fed(row.slot, 0, row.tokens[: row.fed])
    return True

  def _decode(self):
    rows = [row for row in self._running if row.fed == len(row.tokens)]
    if not rows:
      return
    steps = _PIECE if any(row.each for row in rows) else passes.COLUMNS
    share = 1 / _SEATS if self._waiting else self._share
    ended = max(1, int(share * len(rows)))
    made = self._passes.decode(rows, steps, ended)
    for row, (ids, told, stopped) in zip(rows, made):
      row.take(ids, told, self.version)
      self.totals['sampled'] += len(ids)
      finish = engine.STOP if stopped else ''
      if not finish and row.done == row.request.max_tokens:
        finish = engine.LENGTH
      start, row.fed = row.fed, len(row.tokens) - bool(finish)
      if row.epoch == self._epoch:
        self._slots.fed(row.slot, start, row.tokens[start : row.fed])
      if finish:
        self._end(row, finish)
      elif row.each:
        self.mail.post(row, row.result(''), False)

  def _end(self, row, finish):
    """The last result of a row that runs or waits."""
    try:
      experts = self._routed(row) if row.sampling.experts else None
      result: Any = row.result(finish, experts)
      engine.check_sample(result.sample, row.request, row.sampling)
    except Exception as error:
      result, self._spoilt = error, True
    if row.slot >= 0:
      self._running.remove(row)
      self._release(row)
    self.mail.post(row, result, True)

  def _routed(self, row):
    """The experts of a row; -1 where it was not computed by the end."""
    if row.slot >= 0 and row.fed >= len(row.tokens) - 1:
      return self._passes.routed(row)
    return np.full((len(row.tokens) - 1, *self._experts), -1, np.int32)

  def _release(self, row):
    self._slots.release(row.slot, row.epoch == self._epoch)
    row.slot = -1


def _openings(row: tickets.Ticket) -> set[bytes]:
  """What tells requests alike: the first chunk, and the whole."""
  first = row.tokens[: decoding.CHUNK]
  return {first.tobytes(), row.tokens.tobytes()}
