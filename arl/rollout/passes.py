"""The device's side of continuous batching: a pool of slots and its passes.

Nothing here knows what waits or why. A known small number of functions is
compiled: for each batch size and each width of the cache one that feeds and one
that samples, the latter again for whatever else is told of the tokens. A pass
reads its slots no wider than its longest row needs, so that short rows do not
pay for the context.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from arl.rollout import board, decoding, pool, sampler, scoring, tickets

COLUMNS = 64  # tokens of a row that one call samples at most
_FEW = 16  # the same where all ids are told of
_FEED = 256  # ids of a row that one call feeds at most
_WHOLE = 64  # of which there is room for a multiple, whole chunks
_PATHS = 32  # paths that are folded at once


class Passes:
  """A pool of slots on the first device, and the rules of what runs in them.

  Attributes:
    params: the weights.
    count: of the slots.
    width: the places of a slot.
  """

  def __init__(
    self, model: Any, params: Any, *, slots: int, width: int, seed: int
  ):
    self._model, self._seed, self.count = model, seed, slots
    self.width = -(-width // decoding.CHUNK) * decoding.CHUNK
    self._device = jax.local_devices()[0]
    jit = functools.partial(jax.jit, compiler_options=decoding.options())
    kept = functools.partial(
      jit, static_argnums=(0, 1, 2), donate_argnums=(4, 5)
    )
    part = functools.partial
    self._feed: Any = jit(
      part(pool.feed_slots, model), static_argnums=0, donate_argnums=(2, 3)
    )
    self._some: Any = kept(part(pool.decode_slots, model))
    self._all: Any = kept(part(pool.decode_pool, model))
    self._score: Any = jit(part(scoring.score_rows, model), static_argnums=0)
    self._fold: Any = jit(
      lambda seed, paths: jax.random.key_data(sampler.fold(seed, paths)),
      static_argnums=0,
    )
    self._routed: Any = jit(lambda cache, slot: cache[-1][slot])
    self.put_params(params)
    self.reset()

  def put_params(self, params: Any) -> None:
    """Takes new weights."""
    self.params = jax.device_put(params, self._device)

  def reset(self) -> None:
    """Empties the pool, whatever has become of it."""
    model, slots = self._model, self.count
    cache = jax.eval_shape(lambda: model.cache(slots, self.width))
    tokens = jax.ShapeDtypeStruct((slots, 1), np.int32)
    hidden, _ = jax.eval_shape(model.extend, self.params, tokens, tokens, cache)
    last = np.zeros((slots, hidden.shape[2]), hidden.dtype)
    self._last = jax.device_put(last, self._device)
    self._pool = jax.device_put(model.cache(slots, self.width), self._device)
    self._board = board.empty(self.count, self._model.vocab)

  def compiles(self) -> dict[str, int]:
    """How many times each jitted function was compiled."""
    return {
      'engine_feed': self._feed._cache_size(),
      'engine_generate': self._some._cache_size() + self._all._cache_size(),
      'engine_score': self._score._cache_size(),
    }

  def fold(self, rows: Sequence[tickets.Ticket]) -> None:
    """Gives requests the keys of their paths."""
    by_length: dict[int, list[tickets.Ticket]] = {}
    for row in rows:
      by_length.setdefault(len(row.request.path), []).append(row)
    for length, alike in by_length.items():
      for i in range(0, len(alike), _PATHS):
        part = alike[i : i + _PATHS]
        paths = np.zeros((_PATHS, length), np.int32)
        paths[: len(part)] = [row.request.path for row in part]
        for row, key in zip(part, np.asarray(self._fold(self._seed, paths))):
          row.key = key

  def feed(self, rows: Sequence[tickets.Ticket], sources: Sequence[int]) -> int:
    """Feeds each row's slot what it lacks, or a first part.

    Args:
      rows: each with a slot of its own; one that lacks nothing is copied.
      sources: the slot whose cache each one begins with.

    Returns:
      How many ids were fed.
    """
    size = decoding.size(len(rows), self.count) if len(rows) > 1 else 1
    columns = min(_FEED, -(-self.width // _WHOLE) * _WHOLE)
    empty = lambda: np.zeros(size, np.int32)
    feed = pool.Feed(
      slot=empty() + self.count,
      source=empty() + self.count,
      tokens=np.zeros((size, columns), np.int32),
      start=empty(),
      count=empty(),
    )
    for i, (row, source) in enumerate(zip(rows, sources)):
      new = row.tokens[row.fed : row.fed + columns]
      feed.slot[i], feed.source[i], feed.start[i] = row.slot, source, row.fed
      feed.count[i] = len(new)
      feed.tokens[i, : len(new)] = new
      row.fed += len(new)
    width = decoding.width(max(row.fed for row in rows), self.width)
    self._pool, self._last = self._feed(
      width, self.params, self._pool, self._last, feed
    )
    return int(np.sum(feed.count))

  def seat(self, row: tickets.Ticket) -> None:
    """Notes the rule by which a row's slot is sampled from."""
    self._board = board.seat(self._board, row, self._model.vocab)

  def decode(
    self, rows: Sequence[tickets.Ticket], steps: int, ended: int
  ) -> list[tuple[np.ndarray, Any, bool]]:
    """Samples from rows that are fed and seated.

    Args:
      rows: the rows.
      steps: the most tokens of each.
      ended: leaves as soon as so many rows ended.

    Returns:
      For each row ids [n], what is told of them [n, ...], and whether the last
      is a stop id.
    """
    places = np.array([row.slot for row in rows])
    steps = board.start(self._board, rows, steps, self._model.vocab)
    run, given, at = self._all, self._board, places
    size = decoding.size(len(rows), self.count)
    if size < self.count:
      run, given, at = self._some, self._part(places, size), np.arange(size)
    told = _told(rows, self._model.vocab)
    columns = _FEW if told.kept else COLUMNS
    width, room = self._reach(rows, min(steps, columns))
    leave = np.int32(room), np.int32(ended)
    self._pool, self._last, result = run(
      columns,
      width,
      told,
      self.params,
      self._pool,
      self._last,
      given,
      leave,
    )
    ids, told, counts, stopped = jax.device_get(result)
    leaves, kind = jax.tree.flatten(told)
    made = []
    for i in at[: len(rows)]:
      n = counts[i]
      picked = jax.tree.unflatten(kind, [x[i, :n] for x in leaves])
      made.append((ids[i, :n], picked, bool(stopped[i])))
    return made

  def _reach(self, rows, steps):
    """How wide to read the slots, and for how many steps that will do."""
    left = max(row.request.max_tokens - row.done for row in rows)
    steps, longest = min(steps, left), max(row.fed for row in rows)
    width = decoding.width(longest + min(steps, _FEW), self.width)
    return width, min(steps, width - longest)

  def routed(self, row: tickets.Ticket) -> np.ndarray:
    """The experts of all but the last of a row's tokens, [m - 1, L, K]."""
    chosen = np.asarray(self._routed(self._pool, np.int32(row.slot)))
    return np.swapaxes(chosen[:, : len(row.tokens) - 1], 0, 1).copy()

  def score(
    self,
    sequences: Sequence[Sequence[int]],
    temperature: float,
    top: int = 0,
    watched: Sequence[int] = (),
  ) -> list[dict[str, Any]]:
    """Of each sequence what scoring.score_rows tells, arrays over its ids."""
    made: list[dict[str, Any]] = []
    ids = np.zeros((1, board.room(len(watched), 4) if watched else 0), np.int32)
    ids[0, : len(watched)] = watched
    width = board.room(top, 4) if top else 0
    for i in range(0, len(sequences), self.count):
      part = sequences[i : i + self.count]
      size = decoding.size(len(part), self.count)
      tokens = np.zeros((size, self.width), np.int32)
      segments = np.zeros_like(tokens)
      for row, sequence in enumerate(part):
        tokens[row, : len(sequence)] = sequence
        segments[row, : len(sequence)] = 1
      told = jax.device_get(
        self._score(
          min(width, self._model.vocab),
          self.params,
          tokens,
          segments,
          np.repeat(ids, size, axis=0),
          jnp.float32(temperature),
        )
      )
      for row, sequence in enumerate(part):
        n = len(sequence)
        made.append(jax.tree.map(lambda x, row=row, n=n: x[row, :n], told))
    return made

  def _part(self, places, size):
    """The board's rows at some places, and fillers."""
    at = np.zeros(size, np.int32)
    at[: len(places)] = places
    part = jax.tree.map(lambda x: x[at], self._board)
    part.slot[len(places) :], part.live[len(places) :] = self.count, False
    return part


def _told(rows, vocab):
  """What has to be told of some row, so of all."""
  top = max(row.wanted.top for row in rows)
  return sampler.Told(
    truncated=any(row.truncated for row in rows),
    entropy=any(row.sampling.entropy for row in rows),
    top=min(board.room(top, 4), vocab) if top else 0,
    kept=any(row.wanted.kept for row in rows),
  )
