"""The embedded engine: sampling in JAX, with the contract of a server.

It keeps a pool of key-value caches, one slot a conversation. A request whose
tokens continue what its session's slot holds is computed from there on; any
other starts afresh, and what all of those begin with is computed once. Prompts
run in chunks and decoding runs until the last row stops, inside one compiled
function for each batch size, so nothing is compiled for a length.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from arl.models import functional, heads
from arl.rollout import decoding, engine, sampler, stop_text


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
  return shared if shared >= decoding.CHUNK else 0


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
    read: Callable[[Sequence[int]], str] | None = None,
  ):
    """Makes an engine.

    Args:
      model: what to sample from.
      params: its weights.
      slots: the most sequences in one pass; more requests run in turns.
      context: the longest sequence, prompt and samples together, in tokens.
      seed: of all randomness; each request folds its path into it.
      read: ids as text, for samples that a text ends. Such a sample is cut
        after it was made; None where there are none.

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
    self._model, self._seed, self._read = model, seed, read
    self._device = jax.local_devices()[0]
    self._context, self._count = context, slots
    self._width = -(-context // decoding.CHUNK) * decoding.CHUNK
    self._pool = jax.device_put(model.cache(slots, self._width), self._device)
    self._slots = [_Slot() for _ in range(slots)]
    self._clock = 0
    self._run: Any = jax.jit(
      functools.partial(decoding.continue_rows, model),
      static_argnums=(0, 1),
      donate_argnums=3,
      compiler_options=decoding.options(),
    )
    self._open: Any = jax.jit(
      functools.partial(decoding.open_cache, model),
      compiler_options=decoding.options(),
    )
    self._nothing = jax.device_put(model.cache(1, self._width), self._device)
    self._take = jax.jit(
      lambda pool, slots: pool[-1].at[slots].get(mode='clip')
    )
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
    if self._read is None:
      stop_text.refuse(sampling)
    decoding.check_experts(sampling, self._model)
    engine.check_requests(
      requests, vocab=self._model.vocab, context=self._context
    )
    samples: list[engine.Sample] = []
    for i in range(0, len(requests), self._count):
      samples += self._generate(requests[i : i + self._count], sampling)
    return samples

  def _generate(self, requests, sampling):
    slots = self._assign(requests)
    size = decoding.size(len(requests), self._count)
    rows = self._rows(requests, slots, size)
    opening = self._opening(requests, rows)
    rows = rows._replace(paths=self._fold(self._seed, rows.paths))
    for at in slots:
      self._slots[at].ids = []  # until the pass has succeeded
    rule = sampler.Rule(
      greedy=sampling.temperature == 0,
      truncated=sampling.top_p < 1 or sampling.top_k > 0,
      entropy=sampling.entropy,
    )
    numbers = (
      jnp.float32(sampling.temperature),
      jnp.float32(sampling.top_p),
      jnp.int32(sampling.top_k),
    )
    self._pool, result = self._run(
      rule, sampling.stop, self._params, self._pool, opening, rows, numbers
    )
    ids, (logp, *entropy), counts, stopped = jax.device_get(result)
    routed = self._routed(rows.slot) if sampling.experts else None
    samples = []
    for i, request in enumerate(requests):
      n = int(counts[i])
      finish = engine.STOP if stopped[i] else engine.LENGTH
      m = len(request.tokens) + n
      sample = engine.Sample(
        tokens=ids[i, :n],
        logp=logp[i, :n],
        finish=finish,
        versions=np.full(n, self.version, np.int32),
        entropy=entropy[0][i, :n] if entropy else None,
        experts=None if routed is None else routed[i, : m - 1],
        cached=int(rows.start[i]),
      )
      if self._read is not None and sampling.stop_text:
        sample = stop_text.cut(sample, sampling.stop_text, self._read)
      engine.check_sample(sample, request, sampling)
      slot = self._slots[slots[i]]
      slot.ids = [*request.tokens, *sample.tokens[:-1].tolist()]
      samples.append(sample)
    return samples

  def _routed(self, slots) -> np.ndarray:
    """The experts of each token that slots hold, [b, S, L, K]."""
    return np.asarray(self._take(self._pool, slots)).swapaxes(1, 2)

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

  def _rows(self, requests, slots, size) -> decoding.Rows:
    width = len(requests[0].path)
    held = [
      _shared(self._slots[slot].ids, request.tokens)
      for request, slot in zip(requests, slots)
    ]
    common = _common([r.tokens for r, n in zip(requests, held) if not n])
    rows = decoding.Rows(
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
    engine.check_scored(
      sequences, temperature, vocab=self._model.vocab, context=self._context
    )
    scores: list[np.ndarray] = []
    for i in range(0, len(sequences), self._count):
      part = sequences[i : i + self._count]
      size = decoding.size(len(part), self._count)
      tokens = np.zeros((size, self._width), np.int32)
      segments = np.zeros_like(tokens)
      for row, ids in enumerate(part):
        tokens[row, : len(ids)], segments[row, : len(ids)] = ids, 1
      logp = jax.device_get(
        self._score(self._params, tokens, segments, jnp.float32(temperature))
      )
      scores += [logp[row, : len(ids)] for row, ids in enumerate(part)]
    return scores
