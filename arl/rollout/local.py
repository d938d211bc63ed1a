"""The embedded engine: sampling in JAX, with the contract of a server.

A call puts its requests into the slots of a pool of key-value caches and has
turns taken until all have ended: those that wait are admitted as others end,
what requests begin with alike is computed once, and what a slot still holds of
a request's beginning is not computed again. ContinuousEngine does the same for
requests that come at any time.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from arl.models import functional, heads
from arl.rollout import (
  decoding,
  engine,
  passes,
  scheduler,
  stop_text,
  tickets,
)

# Of the rows that run: those left are then few enough for a smaller batch.
_SHARE = 0.75


class LocalEngine:
  """Samples with a model of `arl.models` on this machine's first device."""

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
      slots: the most sequences in one pass; more requests wait for places.
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
    self._model, self._read, self._context = model, read, context
    self._passes = passes.Passes(
      model, params, slots=slots, width=context, seed=seed
    )
    self._scheduler = scheduler.Scheduler(self._passes, model.experts, _SHARE)
    self._score: Any = jax.jit(
      self._score_rows, compiler_options=decoding.options()
    )

  @property
  def version(self) -> int:
    """Of the weights, as `set_params` was told."""
    return self._scheduler.version

  def set_params(self, params: functional.Params, version: int) -> None:
    """Takes new weights; every cache of the old ones is forgotten."""
    self._scheduler.take_weights(params, version)

  def compiles(self) -> dict[str, int]:
    """How many times each jitted function was compiled."""
    own = {'engine_score': self._score._cache_size()}
    return self._passes.compiles() | own

  def load(self) -> dict[str, int]:
    """See Scheduler.load."""
    return self._scheduler.load()

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
    made: list[Any] = [None] * len(requests)
    rows = [
      tickets.Ticket(
        request,
        sampling,
        tickets.Wanted(),
        name='',
        each=False,
        sink=functools.partial(_keep, made, i),
        loop=None,
      )
      for i, request in enumerate(requests)
    ]
    self._run(rows)
    for one in made:
      if isinstance(one, Exception):
        raise one
    return [
      self._cut(one.sample, request, sampling)
      for one, request in zip(made, requests)
    ]

  def _run(self, rows):
    """Takes turns until all have ended, the longest known beginnings first.

    A row that is new then takes the place of none that could be continued.
    """
    known = [self._scheduler.known(row) for row in rows]
    try:
      for i in np.argsort(np.negative(known), kind='stable'):
        self._scheduler.add(rows[i])
      while self._scheduler.busy():
        self._scheduler.turn()
    except BaseException as error:
      self._scheduler.fail(error)
      self._passes.reset()
      raise
    finally:
      self._scheduler.mail.send()

  def _cut(self, sample, request, sampling):
    """What a stop text, if there is one, leaves of a sample."""
    if self._read is None or not sampling.stop_text:
      return sample
    sample = stop_text.cut(sample, sampling.stop_text, self._read)
    engine.check_sample(sample, request, sampling)
    return sample

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
    for i in range(0, len(sequences), self._passes.count):
      part = sequences[i : i + self._passes.count]
      size = decoding.size(len(part), self._passes.count)
      tokens = np.zeros((size, self._passes.width), np.int32)
      segments = np.zeros_like(tokens)
      for row, ids in enumerate(part):
        tokens[row, : len(ids)], segments[row, : len(ids)] = ids, 1
      logp = jax.device_get(
        self._score(
          self._passes.params, tokens, segments, jnp.float32(temperature)
        )
      )
      scores += [logp[row, : len(ids)] for row, ids in enumerate(part)]
    return scores


def _keep(made, i, value, last):
  """Keeps the last result of a request."""
  del last
  made[i] = value
