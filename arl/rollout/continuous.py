"""Continuous batching: the embedded engine that takes requests at any time.

A thread owns the device. In turns it hears what is asked, admits requests to
free cache slots, feeds their prompts, and samples a few tokens of all that run.
A request continues from whichever slot holds the longest beginning of it that
the weights of now computed. What is sampled depends on the request alone, as
with LocalEngine, which gives the same tokens.
"""

import concurrent.futures
import contextlib
import itertools
import queue
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import Any

import numpy as np

from arl.rollout import (
  decoding,
  engine,
  mailbox,
  passes,
  scheduler,
  stop_text,
  tickets,
)

_SHARE = 0.25  # of the rows that run, before results are looked at


class ContinuousEngine:
  """Samples with a model of `arl.models`; safe to call from any thread.

  Attributes:
    context: the longest sequence, in tokens.
    model: what it samples from.
  """

  def __init__(
    self, model: Any, params: Any, *, slots: int, context: int, seed: int
  ):
    """Makes an engine and starts its thread; `close` ends it.

    Args:
      model: what to sample from.
      params: its weights.
      slots: the most sequences that run at once; more wait.
      context: the longest sequence, prompt and samples together, in tokens.
      seed: of all randomness; each request folds its path into it.

    Raises:
      ValueError: no slot, or a context longer than the model's.
    """
    if slots < 1:
      raise ValueError(f'engine: {slots} slots; set slots to 1 or more.')
    if not 2 <= context <= model.context:
      raise ValueError(
        f'engine: a context of {context} tokens; the model was made for'
        f' {model.context}: set context to 2 to that.'
      )
    self.model, self.context = model, context
    self._passes = passes.Passes(
      model, params, slots=slots, width=context, seed=seed
    )
    self._scheduler = scheduler.Scheduler(self._passes, model.experts, _SHARE)
    self._closed, self._names = False, itertools.count()
    self._inbox: queue.SimpleQueue = queue.SimpleQueue()
    self._thread = threading.Thread(target=self._work, daemon=True)
    self._thread.start()

  def submit(
    self,
    request: engine.Request,
    sampling: engine.Sampling,
    wanted: tickets.Wanted,
    sink: tickets.Sink,
    *,
    name: str = '',
    each: bool = False,
    loop: Any = None,
  ) -> None:
    """Hands a request in; its results, or what went wrong, are sunk.

    Args:
      request: what to continue.
      sampling: how.
      wanted: what else to tell.
      sink: takes a Result or an exception, and whether it is the last.
      name: by which it can be aborted.
      each: whether results are sunk as it goes on.
      loop: the event loop that calls the sink; None for the engine's thread.

    Raises:
      ValueError: a request that cannot be continued.
    """
    self.check([request], sampling)
    ticket = tickets.Ticket(request, sampling, wanted, name, each, sink, loop)
    self._tell(lambda: self._scheduler.add(ticket))

  async def results(
    self,
    request: engine.Request,
    sampling: engine.Sampling,
    wanted: tickets.Wanted,
    *,
    name: str,
    each: bool,
  ) -> AsyncGenerator[tickets.Result, None]:
    """The results of a request; see `submit`. One that is left is aborted."""
    results = mailbox.Results()
    try:
      self.submit(
        request,
        sampling,
        wanted,
        results.sink,
        name=name,
        each=each,
        loop=results.loop,
      )
      async for result in results:
        yield result
    finally:
      if not results.ended and not self._closed:
        self.abort(name)

  async def sample(
    self, request: engine.Request, sampling: engine.Sampling
  ) -> engine.Sample:
    """Continues a request; one that is cancelled is aborted."""
    async for sample in self._samples(request, sampling, each=False):
      last = sample
    return last

  def stream(
    self, request: engine.Request, sampling: engine.Sampling
  ) -> AsyncIterator[engine.Sample]:
    """All that is sampled so far, again and again; finish is '' until last."""
    return self._samples(request, sampling, each=True)

  async def _samples(self, request, sampling, each):
    made = self.results(
      request,
      sampling,
      tickets.Wanted(),
      name=f'arl-{next(self._names)}',
      each=each,
    )
    async with contextlib.aclosing(made):
      async for result in made:
        yield result.sample

  def generate(
    self, requests: Sequence[engine.Request], sampling: engine.Sampling
  ) -> list[engine.Sample]:
    """Continues every request; the samples are in the order of the requests."""
    self.check(requests, sampling)
    futures: list[concurrent.futures.Future] = [
      concurrent.futures.Future() for _ in requests
    ]
    for request, future in zip(requests, futures):
      sink = mailbox.into(future)
      self.submit(request, sampling, tickets.Wanted(), sink)
    return [future.result().sample for future in futures]

  def score(
    self, sequences: Sequence[Sequence[int]], temperature: float
  ) -> list[np.ndarray]:
    """Log-prob of each token given those before it, [n]; the first is 0.

    Raises:
      ValueError: a sequence that the model cannot read, or a temperature that
        is not above 0.
    """
    told = self.tell(sequences, temperature).result()
    return [np.append(0, one['logp'][1:]).astype(np.float32) for one in told]

  def tell(
    self,
    sequences: Sequence[Sequence[int]],
    temperature: float,
    top: int = 0,
    watched: Sequence[int] = (),
  ) -> concurrent.futures.Future:
    """Of each sequence what scoring.score_rows tells, arrays over its ids."""
    engine.check_scored(
      sequences, temperature, vocab=self.model.vocab, context=self.context
    )
    done: concurrent.futures.Future = concurrent.futures.Future()
    kind = temperature, top, tuple(watched)
    self._tell(lambda: self._scheduler.add_scores(kind, sequences, done))
    return done

  def set_params(self, params: Any, version: int) -> None:
    """Takes new weights; what was computed with the old ones is forgotten.

    Waits for what runs, unless paused, and what comes meanwhile waits. What is
    held in place goes on with the new weights.
    """
    self.take_params(params, version).result()

  def take_params(self, params: Any, version: int) -> concurrent.futures.Future:
    """The same without waiting."""
    done: concurrent.futures.Future = concurrent.futures.Future()
    self._tell(lambda: self._scheduler.add_weights(params, version, done))
    return done

  def abort(self, name: str | None) -> concurrent.futures.Future:
    """Ends requests of a name, or all for None, with the tokens so far."""
    return self._tell(lambda: self._scheduler.abort(name))

  def pause(self, mode: str) -> concurrent.futures.Future:
    """Stops sampling until `resume`; requests that come are held.

    Args:
      mode: 'abort' ends what was asked before; 'in_place' holds what runs, with
        all that was computed of it; 'retract' sends it back to wait, so that it
        is computed again by the weights of then.

    Raises:
      ValueError: no such mode.
    """
    if mode not in engine.PAUSES:
      raise ValueError(
        f'pause: {mode!r} is no mode; use one of {engine.PAUSES}.'
      )
    return self._tell(lambda: self._scheduler.pause(mode))

  def resume(self) -> concurrent.futures.Future:
    """Goes on after a pause."""
    return self._tell(self._scheduler.resume)

  def flush(self) -> concurrent.futures.Future:
    """Forgets what slots hold; its result is False while something runs."""
    return self._tell(self._scheduler.flush)

  @property
  def version(self) -> int:
    """Of the weights, as `set_params` was told."""
    return self._scheduler.version

  @property
  def paused(self) -> bool:
    """Whether it is."""
    return bool(self._scheduler.paused)

  def load(self) -> dict[str, int]:
    """See Scheduler.load."""
    return self._scheduler.load()

  def compiles(self) -> dict[str, int]:
    """How many times each jitted function was compiled."""
    return self._passes.compiles()

  def close(self) -> None:
    """Ends the thread; whoever still waits is told."""
    if not self._closed:
      self._tell(lambda: setattr(self, '_closed', True))
      self._thread.join()

  def check(
    self, requests: Sequence[engine.Request], sampling: engine.Sampling
  ) -> None:
    """Raises ValueError for what cannot be continued."""
    engine.check_sampling(sampling)
    stop_text.refuse(sampling)
    decoding.check_experts(sampling, self.model)
    engine.check_requests(
      requests, vocab=self.model.vocab, context=self.context
    )

  def _tell(self, what: Callable[[], Any]) -> concurrent.futures.Future:
    if self._closed:
      raise RuntimeError('the engine is closed; make another.')
    future: concurrent.futures.Future = concurrent.futures.Future()
    self._inbox.put((what, future))
    return future

  def _work(self):
    while not self._closed:
      try:
        self._hear()
        if not self._closed:
          self._scheduler.turn()
      except Exception as error:  # whoever waits has to hear of it
        self._scheduler.fail(error)
        self._passes.reset()
      self._scheduler.mail.send()
    while not self._inbox.empty():
      self._do(*self._inbox.get())
    self._scheduler.fail(RuntimeError('it was closed'))
    self._scheduler.mail.send()

  def _hear(self):
    """Does what was asked; waits for something where nothing is to do."""
    if not self._scheduler.busy():
      self._do(*self._inbox.get())
    while not self._inbox.empty():
      self._do(*self._inbox.get())

  def _do(self, what, future):
    try:
      future.set_result(what())
    except Exception as error:
      future.set_exception(error)
