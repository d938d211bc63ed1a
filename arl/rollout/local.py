"""The embedded engine: sampling in JAX, with the contract of a server.

It keeps a pool of key-value caches, one slot a conversation. A request whose
tokens continue what its session's slot holds is computed from there on; any
other starts afresh, and what all of those begin with is computed once. Prompts
run in chunks and decoding runs until the last row stops, inside one compiled
function for each batch size, so nothing is compiled for a length.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from arl.models import functional, heads
from arl.rollout import engine, sampler

_CHUNK = 16  # prompt tokens a forward pass
_SHRINK = 4  # batch sizes are slots, slots / 4, slots / 16, ...
_SMALLEST = 8


class _Rows(NamedTuple):
  """The rows of one call: b sequences, S cache slots."""

  slot: Any  # int32 [b], which cache; out of range for a filler row
  fresh: Any  # bool [b], whether it starts afresh, from the opening
  tokens: Any  # int32 [b, S], the ids to feed, from column 0
  start: Any  # int32 [b], how many ids the cache or the opening holds
  count: Any  # int32 [b], how many ids to feed; 0 for a filler row
  limit: Any  # int32 [b], the most to sample
  paths: Any  # int32 [b, n], folded into the seed to keys [b]


def _prefill(model, params, cache, tokens, start, count):
  """Feeds each row's new ids in chunks; the last one's hidden [b, D]."""
  offsets = jnp.arange(_CHUNK)

  def feed(i, carry):
    cache, last = carry
    at = i * _CHUNK + offsets[None, :]
    real = at < count[:, None]
    ids = jax.lax.dynamic_slice_in_dim(tokens, i * _CHUNK, _CHUNK, 1)
    positions = jnp.where(real, start[:, None] + at, -1)
    hidden, cache = model.extend(params, ids, positions, cache)
    here = (count[:, None] - 1) == at
    picked = jnp.sum(jnp.where(here[..., None], hidden, 0), axis=1)
    return cache, jnp.where(jnp.any(here, axis=1)[:, None], picked, last)

  first = (tokens[:, :_CHUNK],) * 2
  shape, _ = jax.eval_shape(model.extend, params, *first, cache)
  last = jnp.zeros((shape.shape[0], shape.shape[2]), shape.dtype)
  chunks = (jnp.max(count) + _CHUNK - 1) // _CHUNK
  return jax.lax.fori_loop(0, chunks, feed, (cache, last))


def _open(model, params, tokens, count):
  """The cache of one sequence [1, S] that others begin with."""
  cache = model.cache(*tokens.shape)
  start = jnp.zeros_like(count)
  return _prefill(model, params, cache, tokens, start, count)[0]


def _decode(model, params, cache, last, rows, choose, stop):
  """Samples until every row stopped or reached its limit."""
  b, width = rows.tokens.shape
  length = rows.start + rows.count
  keys = rows.paths
  never = jnp.zeros(b, bool)

  def going(carry):
    return jnp.any(carry['live'])

  def advance(carry):
    i, live = carry['i'], carry['live']
    logits = model.logits(params, carry['last'])
    ids, logp = choose(logits, jax.vmap(jax.random.fold_in, (0, None))(keys, i))
    ended = functools.reduce(jnp.logical_or, [ids == s for s in stop], never)
    more = live & ~ended & (i + 1 < rows.limit)
    positions = jnp.where(more, length + i, -1)
    hidden, cache = jax.lax.cond(
      jnp.any(more),
      lambda: model.extend(
        params, ids[:, None], positions[:, None], carry['cache']
      ),
      lambda: (carry['last'][:, None], carry['cache']),
    )
    put = functools.partial(jax.lax.dynamic_update_slice_in_dim, axis=1)
    return {
      'i': i + 1,
      'live': more,
      'last': hidden[:, 0],
      'cache': cache,
      'ids': put(carry['ids'], ids[:, None], i),
      'logp': put(carry['logp'], logp[:, None], i),
      'count': carry['count'] + live.astype(jnp.int32),
      'stopped': carry['stopped'] | (live & ended),
    }

  out = jax.lax.while_loop(
    going,
    advance,
    {
      'i': jnp.int32(0),
      'live': rows.count > 0,
      'last': last,
      'cache': cache,
      'ids': jnp.zeros((b, width), jnp.int32),
      'logp': jnp.zeros((b, width), jnp.float32),
      'count': jnp.zeros(b, jnp.int32),
      'stopped': never,
    },
  )
  return out['cache'], (out['ids'], out['logp'], out['count'], out['stopped'])


def _continue(model, rule, stop, params, pool, opening, rows, numbers):
  """One call: cached rows out of the pool, prefill, decode, and back in."""
  fresh = rows.fresh[:, None, None, None]
  cache = jax.tree.map(
    lambda c, o: jnp.where(
      fresh, o, c.at[rows.slot].get(mode='fill', fill_value=0)
    ),
    pool,
    opening,
  )
  cache, last = _prefill(
    model, params, cache, rows.tokens, rows.start, rows.count
  )

  def choose(logits, keys):
    return sampler.choose(logits, keys, rule, *numbers)

  cache, result = _decode(model, params, cache, last, rows, choose, stop)
  pool = jax.tree.map(
    lambda p, c: p.at[rows.slot].set(c, mode='drop'), pool, cache
  )
  return pool, result


class _Slot:
  """Which ids a cache slot was computed from, and when it was last used."""

  def __init__(self):
    self.session: Any = None
    self.ids: list[int] = []
    self.used = 0


def _shared(ids: Sequence[int], tokens: Sequence[int]) -> int:
  """How many leading tokens a slot holds; at least one stays to be fed."""
  n = min(len(ids), len(tokens) - 1)
  return n if list(tokens[:n]) == list(ids[:n]) else 0


def _common(sequences: Sequence[Sequence[int]]) -> int:
  """How many leading tokens all have in common, of each but its last.

  0 where it saves nothing: for less than a chunk, or fewer than two sequences.
  """
  if len(sequences) < 2:
    return 0
  most = min(len(tokens) for tokens in sequences) - 1
  heads = np.array([tokens[:most] for tokens in sequences])
  differ = np.any(heads != heads[0], axis=0)
  shared = int(np.argmax(differ)) if np.any(differ) else most
  return shared if shared >= _CHUNK else 0


class LocalEngine:
  """Samples with a model of `arl.models` on this machine's devices.

  Attributes:
    version: of the weights, as `set_params` was told.
  """

  def __init__(
    self,
    model: functional.Model,
    params: functional.Params,
    *,
    slots: int,
    context: int,
    seed: int,
  ):
    """Makes an engine.

    Args:
      model: what to sample from.
      params: its weights.
      slots: the most sequences in one pass; more requests run in turns.
      context: the longest sequence, prompt and samples together, in tokens.
      seed: of all randomness; each request folds its path into it.

    Raises:
      ValueError: no slot, or a context longer than the model's.
    """
    if slots < 1:
      raise ValueError(f'engine: {slots} slots; set engine.slots to 1 or more.')
    if context > model.context:
      raise ValueError(
        f'engine: a context of {context} tokens exceeds the {model.context}'
        ' that the model was made for; set rollout.context to at most that.'
      )
    self._model, self._seed = model, seed
    self._device = jax.devices()[0]
    self._context, self._count = context, slots
    self._width = -(-context // _CHUNK) * _CHUNK
    self._pool = jax.device_put(model.cache(slots, self._width), self._device)
    self._slots = [_Slot() for _ in range(slots)]
    self._clock = 0
    self._run: Any = jax.jit(
      functools.partial(_continue, model),
      static_argnums=(0, 1),
      donate_argnums=3,
    )
    self._open: Any = jax.jit(functools.partial(_open, model))
    self._nothing = jax.device_put(model.cache(1, self._width), self._device)
    # Apart, so that a path of another length compiles nothing but this.
    self._fold = jax.jit(sampler.fold, static_argnums=0)
    self._score: Any = jax.jit(self._score_rows)
    self.set_params(params, 0)

  def set_params(self, params: functional.Params, version: int) -> None:
    """Takes new weights; every cache of the old ones is forgotten."""
    self._params = jax.device_put(params, self._device)
    self.version = version
    for slot in self._slots:
      slot.session, slot.ids = None, []

  def compiles(self) -> dict[str, int]:
    """How many times each jitted function was compiled."""
    return {
      'engine_generate': self._run._cache_size(),
      'engine_score': self._score._cache_size(),
    }

  def generate(
    self, requests: Sequence[engine.Request], sampling: engine.Sampling
  ) -> list[engine.Sample]:
    """Continues every request; the samples are in the order of the requests.

    Raises:
      ValueError: a request that cannot be continued, or numbers of `sampling`
        that are no distribution.
    """
    engine.check_sampling(sampling)
    engine.check_requests(
      requests, vocab=self._model.vocab, context=self._context
    )
    samples: list[engine.Sample] = []
    for i in range(0, len(requests), self._count):
      samples += self._generate(requests[i : i + self._count], sampling)
    return samples

  def _generate(self, requests, sampling):
    slots = self._assign(requests)
    size = self._size(len(requests))
    rows = self._rows(requests, slots, size)
    opening = self._opening(requests, rows)
    rows = rows._replace(paths=self._fold(self._seed, rows.paths))
    for at in slots:
      self._slots[at].ids = []  # until the pass has succeeded
    rule = sampler.Rule(
      greedy=sampling.temperature == 0,
      truncated=sampling.top_p < 1 or sampling.top_k > 0,
    )
    numbers = (
      jnp.float32(sampling.temperature),
      jnp.float32(sampling.top_p),
      jnp.int32(sampling.top_k),
    )
    self._pool, result = self._run(
      rule, sampling.stop, self._params, self._pool, opening, rows, numbers
    )
    ids, logp, counts, stopped = jax.device_get(result)
    samples = []
    for i, request in enumerate(requests):
      n = int(counts[i])
      finish = engine.STOP if stopped[i] else engine.LENGTH
      sample = engine.Sample(ids[i, :n], logp[i, :n], finish, self.version)
      engine.check_sample(sample, request, sampling.stop)
      slot = self._slots[slots[i]]
      slot.ids = [*request.tokens, *sample.tokens[:-1].tolist()]
      samples.append(sample)
    return samples

  def _size(self, n: int) -> int:
    size = self._count
    while size // _SHRINK >= max(n, _SMALLEST):
      size //= _SHRINK
    return size

  def _assign(self, requests) -> list[int]:
    """A slot for each request: its session's, else the longest unused."""
    self._clock += 1
    owner = {s.session: i for i, s in enumerate(self._slots) if s.ids}
    taken: dict[int, int] = {}
    for i, request in enumerate(requests):
      held = owner.get(request.session)
      if request.session is not None and held is not None:
        taken[i] = held
        owner.pop(request.session)
    busy = set(taken.values())
    free = iter(
      sorted(
        (i for i in range(self._count) if i not in busy),
        key=lambda i: self._slots[i].used,
      )
    )
    chosen = [
      taken[i] if i in taken else next(free) for i in range(len(requests))
    ]
    for at, request in zip(chosen, requests):
      slot = self._slots[at]
      if slot.session != request.session or request.session is None:
        slot.session, slot.ids = request.session, []
      slot.used = self._clock
    return chosen

  def _rows(self, requests, slots, size) -> _Rows:
    width = len(requests[0].path)
    held = [
      _shared(self._slots[slot].ids, request.tokens)
      for request, slot in zip(requests, slots)
    ]
    common = _common([r.tokens for r, n in zip(requests, held) if not n])
    rows = _Rows(
      slot=np.full(size, self._count, np.int32),
      fresh=np.zeros(size, bool),
      tokens=np.zeros((size, self._width), np.int32),
      start=np.zeros(size, np.int32),
      count=np.zeros(size, np.int32),
      limit=np.zeros(size, np.int32),
      paths=np.zeros((size, width), np.int32),
    )
    for i, (request, slot) in enumerate(zip(requests, slots)):
      start = held[i] or common
      new = request.tokens[start:]
      rows.slot[i], rows.start[i], rows.count[i] = slot, start, len(new)
      rows.fresh[i] = not held[i]
      rows.tokens[i, : len(new)] = new
      rows.limit[i], rows.paths[i] = request.max_tokens, request.path
    return rows

  def _opening(self, requests, rows):
    """The cache that fresh rows start from, with what they begin with."""
    first = int(np.argmax(rows.fresh))
    count = rows.start[first : first + 1] * rows.fresh[first]
    if not count:
      return self._nothing
    tokens = np.zeros((1, self._width), np.int32)
    tokens[0, : count[0]] = requests[first].tokens[: count[0]]
    return self._open(self._params, tokens, count)

  def _score_rows(self, params, tokens, segments, temperature):
    positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
    hidden = self._model.apply(params, tokens, positions, segments)
    made = heads.columns(
      self._model,
      params,
      hidden,
      tokens,
      frozenset({'logp'}),
      temperature=temperature,
    )
    return made['logp']

  def score(
    self, sequences: Sequence[Sequence[int]], temperature: float
  ) -> list[np.ndarray]:
    """Log-prob of each token given those before it, [n]; the first is 0.

    Raises:
      ValueError: a sequence that the model cannot read, or a temperature that
        is not above 0.
    """
    if not temperature > 0:
      raise ValueError(
        f'score: temperature is {temperature}; give one above 0.'
      )
    size = {'vocab': self._model.vocab, 'context': self._context}
    for i, ids in enumerate(sequences):
      engine.check_ids(f'sequence {i}', ids, **size)
    scores: list[np.ndarray] = []
    for i in range(0, len(sequences), self._count):
      part = sequences[i : i + self._count]
      tokens = np.zeros((self._size(len(part)), self._width), np.int32)
      segments = np.zeros_like(tokens)
      for row, ids in enumerate(part):
        tokens[row, : len(ids)], segments[row, : len(ids)] = ids, 1
      logp = jax.device_get(
        self._score(self._params, tokens, segments, jnp.float32(temperature))
      )
      scores += [logp[row, : len(ids)] for row, ids in enumerate(part)]
    return scores
