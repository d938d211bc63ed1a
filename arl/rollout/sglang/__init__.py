"""Rollouts from SGLang: an engine that asks servers over HTTP.

Every request is asked for alone, under a name and a seed of its own, and asked
again, under another name, where its answer did not come whole. So no answer is
lost, taken twice, or taken for another's. Connections live on an event loop in
a thread of their own: everything here may be called from any other thread, and
`sample` and `stream` from any event loop.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import numpy as np

from arl.rollout import engine, event_loop, stop_text
from arl.rollout.sglang import ask as sglang_ask
from arl.rollout.sglang import fleet as sglang_fleet
from arl.rollout.sglang import greet as sglang_greet
from arl.rollout.sglang import worker as sglang_worker

# Hands parameters of a version to every server of an engine.
Publish = Callable[['SglangEngine', Any, int], None]


def connect(
  urls: Sequence[str],
  *,
  vocab: int,
  context: int,
  seed: int,
  experts: tuple[int, int] = (0, 0),
  names: Mapping[str, int] | None = None,
  publish: Publish | None = None,
  limit: int = 64,
  timeout: float = 600.0,
  patience: float = 300.0,
) -> 'SglangEngine':
  """An engine of servers that are running, all with the same weights.

  Args:
    urls: of the servers, 'http://host:port'. A router in front of them will not
      do: it drops fields that this depends on.
    vocab: how many ids the trainer's model knows.
    context: the longest sequence, prompt and samples together, in tokens.
    seed: of all randomness; each request folds its path into it.
    experts: layers of a mixture, and experts of a token; zeros for none.
    names: versions of weights that a server calls by no number, as 'default'.
    publish: how `set_params` hands over weights; see arl.train.sync.
    limit: requests that a server is sent at a time.
    timeout: seconds without a byte of an answer after which it is asked again.
      A server that is paused for an update is silent, too.
    patience: seconds to wait for a server where none can be used, and to ask
      again what fails, ten times at least.

  Raises:
    ServerError: a server cannot be reached, is too old, or serves a model that
      is not the trainer's.
  """
  if not urls:
    raise ValueError('connect: no servers; give the url of one or more.')
  workers = [
    sglang_worker.Worker(url, limit=limit, timeout=timeout) for url in urls
  ]
  loop = event_loop.Loop()
  try:
    met = loop.run(
      sglang_greet.greet(
        workers, vocab=vocab, context=context, names=names or {}
      )
    )
  except BaseException:
    loop.run(_close(workers))
    loop.stop()
    raise
  facts = sglang_ask.Facts(met.ours, vocab, met.texts, experts, names or {})
  fleet = sglang_fleet.Fleet(
    workers, facts, version=met.version, seed=seed, patience=patience
  )
  return SglangEngine(fleet, loop, met, context=context, publish=publish)


async def _close(workers: Sequence[sglang_worker.Worker]) -> None:
  for worker in workers:
    await worker.close()


class SglangEngine:
  """Samples with servers; see `connect`.

  Attributes:
    met: what the servers said about themselves.
  """

  def __init__(
    self,
    fleet: sglang_fleet.Fleet,
    loop: event_loop.Loop,
    met: sglang_greet.Met,
    *,
    context: int,
    publish: Publish | None,
  ):
    self.met = met
    self._fleet, self._loop = fleet, loop
    self._context, self._publish = context, publish

  @property
  def version(self) -> int:
    """Of the weights that all servers were last known to hold."""
    return self._fleet.version

  @property
  def workers(self) -> list[sglang_worker.Worker]:
    """The servers."""
    return self._fleet.workers

  def close(self) -> None:
    """Ends the connections."""
    self._loop.run(self._fleet.close())
    self._loop.stop()

  # --- The engine protocol ----------------------------------------------------

  def generate(
    self, requests: Sequence[engine.Request], sampling: engine.Sampling
  ) -> list[engine.Sample]:
    """Continues every request; the samples are in the order of the requests.

    Raises:
      ValueError: a request or a sampling that cannot be, before any is sent.
      ServerError: a request that no server answered, or not as it should; the
        others are aborted.
    """
    self._check(requests, sampling)
    return self._loop.run(
      event_loop.together(
        [self._fleet.sample(request, sampling) for request in requests]
      )
    )

  def score(
    self, sequences: Sequence[Sequence[int]], temperature: float
  ) -> list[np.ndarray]:
    """Log-prob of each token given those before it, [n]; the first is 0.

    Raises:
      ValueError: a sequence that the model cannot read, or a temperature that
        is not 1: servers score at 1 alone.
    """
    if temperature != 1:
      raise ValueError(
        f'score: temperature is {temperature}, but SGLang scores at 1 alone;'
        ' score with the trainer.'
      )
    engine.check_scored(
      sequences,
      temperature,
      vocab=self._fleet.facts.vocab,
      context=self._context,
    )
    return self._loop.run(
      event_loop.together([self._fleet.score(ids) for ids in sequences])
    )

  def set_params(self, params: Any, version: int) -> None:
    """Publishes new weights to every server, and proves that they arrived.

    Raises:
      RuntimeError: that did not succeed on every server.
      ValueError: it was connected without a way to publish.
    """
    if self._publish is None:
      raise ValueError(
        'this engine was connected without a way to publish weights; give'
        ' connect(publish=...) one of arl.train.sync.'
      )
    self._publish(self, params, version)

  def compiles(self) -> dict[str, int]:
    """Nothing is compiled here."""
    return {}

  # --- One request at a time --------------------------------------------------

  async def sample(
    self, request: engine.Request, sampling: engine.Sampling
  ) -> engine.Sample:
    """Continues one request; a cancelled one is aborted on its server."""
    self._check([request], sampling)
    return await self._loop.wait(self._fleet.sample(request, sampling))

  async def stream(
    self, request: engine.Request, sampling: engine.Sampling
  ) -> AsyncIterator[engine.Sample]:
    """The sample as it grows; its finish is '' until it is whole.

    Versions, -1 before, and experts come with the last piece. Nothing is asked
    again once a piece was given: another answer would be another sample.
    """
    self._check([request], sampling)
    pieces: asyncio.Queue = asyncio.Queue()
    soon = asyncio.get_running_loop().call_soon_threadsafe

    def give(piece: engine.Sample | None) -> None:
      soon(pieces.put_nowait, piece)

    async def run() -> None:
      try:
        await self._fleet.stream(request, sampling, give)
      finally:
        give(None)

    running = asyncio.ensure_future(self._loop.wait(run()))
    try:
      while (piece := await pieces.get()) is not None:
        yield piece
      await running
    finally:
      running.cancel()

  def _check(self, requests, sampling) -> None:
    facts = self._fleet.facts
    engine.check_sampling(sampling)
    engine.check_requests(requests, vocab=facts.vocab, context=self._context)
    for i in sampling.stop:
      engine.check_ids('sampling.stop', [i], vocab=facts.vocab, context=1)
    if not facts.texts:
      stop_text.refuse(sampling)
    most = sampling.top_k or facts.vocab
    cut = sglang_ask.truncated(sampling) and not facts.ours
    if cut and most > sglang_ask.MOST_KEPT:
      raise ValueError(
        'sampling: SGLang tells the log-probs of a truncated distribution only'
        f' where it keeps {sglang_ask.MOST_KEPT} tokens or fewer, not {most};'
        ' set rollout.top_k to that or less, or rollout.top_p to 1.'
      )
    if sampling.entropy and not facts.ours:
      raise ValueError(
        'sampling.entropy: SGLang does not tell the entropy; fill the column'
        ' from the trainer, or sample with the embedded engine.'
      )
    if sampling.experts and not all(facts.experts):
      raise ValueError(
        'sampling.experts: the model was connected as one without experts; give'
        ' connect(experts=(layers, experts of a token)).'
      )

  # --- For control and synchronisation ----------------------------------------

  def control(
    self, path: str, body: Mapping[str, Any], timeout: float | None = None
  ) -> list[dict[str, Any]]:
    """Posts to every server; the answers, all of which say success.

    Args:
      path: of the call.
      body: of the call.
      timeout: seconds it may take; None for that of requests.
    """
    return self._loop.run(self._fleet.control(path, body, timeout))

  def versions(self) -> list[str]:
    """The weights that each server says it holds."""
    return self._loop.run(
      event_loop.together([worker.version() for worker in self.workers])
    )

  def probe(self, ids: Sequence[int], salt: str) -> list[engine.Sample]:
    """The most likely next token, of each server.

    Args:
      ids: a prompt.
      salt: what was computed under another one is not used.
    """
    request = engine.Request(ids, max_tokens=1, path=())
    sampling = engine.Sampling(temperature=0)
    self._check([request], sampling)
    return self._loop.run(
      event_loop.together(
        [self._fleet.probe(request, sampling, w, salt) for w in self.workers]
      )
    )

  def score_everywhere(self, ids: Sequence[int]) -> list[np.ndarray]:
    """The scores, at temperature 1, of each server."""
    return self._loop.run(
      event_loop.together([self._fleet.score(ids, w) for w in self.workers])
    )

  def holds(self, version: int) -> None:
    """Notes that all servers hold a version now: what publishing ends with."""
    self._fleet.holds(version)
