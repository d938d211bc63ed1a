"""What a server holds: the engine, its tokenizer and the names of versions."""

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from arl.rollout import continuous, engine
from arl.rollout.server import fields as server_fields


class Model(NamedTuple):
  """What is served.

  Attributes:
    folder: where it was loaded from.
    family: the architecture's name in its config.
    params: its weights.
    load: folder -> weights of the same model; ValueError if they are not.
    tokenizer: of `transformers`; None to speak in ids only.
    end: the ids that end a sample by themselves.
  """

  folder: str
  family: str
  params: Any
  load: Callable[[str], Any]
  tokenizer: Any
  end: tuple[int, ...]


class Serving:
  """The state of a server; it belongs to one event loop.

  Attributes:
    engine: the engine.
    model: what is served now.
    limits: what requests may ask for.
    names: of the versions of the weights, by number.
    updating: held by who changes weights.
    started: when it was made, in seconds of the epoch.
  """

  def __init__(
    self,
    made: continuous.ContinuousEngine,
    model: Model,
    *,
    version: str,
    max_queue: int,
  ):
    self.engine, self.model = made, model
    self.names = {0: version}
    self.updating = asyncio.Lock()
    self.started = time.time()
    self._most = made.load()['slots'] + max_queue
    self._live: set[str] = set()
    fresh = itertools.count()
    encode = None if model.tokenizer is None else model.tokenizer.encode
    self.limits = server_fields.Limits(
      vocab=made.model.vocab,
      context=made.context,
      end=model.end,
      encode=encode,
      # No path that is asked for begins with a negative number.
      fresh=lambda: (-1, next(fresh)),
    )

  @property
  def version(self) -> str:
    """The name of the weights of now."""
    return self.names[self.engine.version]

  def enter(self, jobs: Sequence[server_fields.Job]) -> None:
    """Takes jobs in; `leave` has to follow.

    Raises:
      Refused: a name is in use, the queue is full, or the engine cannot.
    """
    for job in jobs:
      if job.request.max_tokens:
        self.engine.check([job.request], job.sampling)
    for rid in [job.rid for job in jobs]:
      if rid in self._live:
        self._live -= {job.rid for job in jobs[: _index(jobs, rid)]}
        raise server_fields.Refused(f'Duplicate request ID detected: {rid}')
      self._live.add(rid)
    if len(self._live) > self._most:
      self.leave(jobs)
      raise server_fields.Refused('The request queue is full.', 503)

  def leave(self, jobs: Sequence[server_fields.Job]) -> None:
    """Forgets jobs that have ended."""
    self._live -= {job.rid for job in jobs}

  def abort(self, rid: str | None) -> None:
    """Ends a request, all of a batch or n that carry its name, or all."""
    if rid is None:
      self.engine.abort(None)
      return
    for name in [*self._live]:
      if name == rid or name.startswith(f'{rid}_'):
        self.engine.abort(name)

  async def update(self, params: Any, name: str | None) -> None:
    """Gives the engine weights, under a name or the one of now."""
    number = max(self.names) + 1
    params = await asyncio.to_thread(jax.device_put, params)
    self.names[number] = self.version if name is None else name
    await asyncio.wrap_future(self.engine.take_params(params, number))
    self.model = self.model._replace(params=params)

  def text(self, ids: Sequence[int], skip: bool) -> str:
    """Ids as text."""
    return self.model.tokenizer.decode(ids, skip_special_tokens=skip)

  def spans(self, sample: engine.Sample) -> list[dict[str, Any]]:
    """The versions of a sample's tokens, as half-open spans."""
    spans: list[dict[str, Any]] = []
    for i, version in enumerate(sample.versions.tolist()):
      name = self.names[version]
      if not spans or spans[-1]['version'] != name:
        spans.append({'version': name, 'start': i, 'end': i})
      spans[-1]['end'] = i + 1
    return spans or [{'version': self.version, 'start': 0, 'end': 0}]


def _index(jobs, rid):
  return next(i for i, job in enumerate(jobs) if job.rid == rid)
