"""The servers of an engine: where a request goes, and what if it fails there.

Everything here runs inside one event loop.
"""

import asyncio
import contextlib
import itertools
import secrets
import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import numpy as np
import tenacity

from arl.rollout import engine
from arl.rollout.sglang import answers as sglang_answers
from arl.rollout.sglang import ask as sglang_ask
from arl.rollout.sglang import route as sglang_route
from arl.rollout.sglang import worker as sglang_worker

_TRIES = 10  # of a request, at least, before it is given up
_LONGEST = 5.0  # seconds between tries, or looks at a server that was lost
_STALE = 5  # looks at a server with other weights, before that is told


def _tries(patience: float) -> tenacity.AsyncRetrying:
  return tenacity.AsyncRetrying(
    retry=tenacity.retry_if_exception_type(sglang_worker.Unreachable),
    stop=tenacity.stop_all(
      tenacity.stop_after_attempt(_TRIES), tenacity.stop_after_delay(patience)
    ),
    wait=tenacity.wait_random_exponential(multiplier=0.05, max=_LONGEST),
    reraise=True,
  )


class Fleet:
  """Servers that hold one version of the weights.

  A request that fails in a way that may pass is asked again, under another
  name and perhaps elsewhere, after the old one was aborted where it ran.

  Attributes:
    workers: the servers.
    facts: what is true of all of them.
    version: that all of them were last known to hold.
  """

  def __init__(
    self,
    workers: Sequence[sglang_worker.Worker],
    facts: sglang_ask.Facts,
    *,
    version: int,
    seed: int,
    patience: float,
  ):
    """Takes servers that were looked at.

    Args:
      workers: the servers.
      facts: what is true of all of them.
      version: that they hold.
      seed: of all randomness; each request folds its path into it.
      patience: seconds to wait for a server where none can be used, and to
        ask again what fails.
    """
    self.workers, self.facts, self.version = list(workers), facts, version
    self._seed, self._patience = seed, patience
    self._places = sglang_route.Places()
    self._name, self._count = secrets.token_hex(6), itertools.count()
    self._changes = 0
    self._tasks: set[asyncio.Task] = set()

  async def close(self) -> None:
    for task in self._tasks:
      task.cancel()
    await asyncio.gather(*self._tasks, return_exceptions=True)
    await asyncio.gather(*(worker.close() for worker in self.workers))

  def holds(self, version: int) -> None:
    """Notes that all servers hold a version now.

    What was computed before is not used again, whatever the servers remember.
    """
    self.version = version
    self._changes += 1

  # --- Calls ------------------------------------------------------------------

  async def control(
    self, path: str, body: Mapping[str, Any], timeout: float | None
  ) -> list[dict[str, Any]]:
    """Posts to every server and waits for all, of which none may fail."""
    calls = [w.post(path, body, timeout) for w in self.workers]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    failed = [a for a in answers if isinstance(a, BaseException)]
    if failed:
      raise failed[0]
    return answers  # type: ignore[return-value]

  async def sample(
    self, request: engine.Request, sampling: engine.Sampling
  ) -> engine.Sample:
    """Continues a request."""
    once = self._sampler(request, sampling, '')
    return await self._ask(once, request.session, None)

  async def probe(
    self,
    request: engine.Request,
    sampling: engine.Sampling,
    worker: sglang_worker.Worker,
    salt: str,
  ) -> engine.Sample:
    """Continues a request on one server, to see what that has in its cache.

    Only a first try can tell: where it has to be tried again, what is cached
    may come from the first and counts as 0.
    """
    once = self._sampler(request, sampling, salt)
    try:
      return await self._try(once, None, worker)
    except sglang_worker.Unreachable:
      again = await self._ask(once, None, worker)
      return again._replace(cached=0)

  def _sampler(self, request, sampling, salt: str) -> Callable:
    body = lambda rid: self._body(request, sampling, rid, salt)
    to_sample = sglang_answers.to_sample
    read = lambda answer: to_sample(answer, request, sampling, self.facts)
    return self._once(body, read, request.session)

  def _once(self, body: Callable, read: Callable, session=None) -> Callable:
    async def once(rid: str, worker) -> Any:
      answer = await worker.generate(body(rid), session)
      with self._named(answer, worker, rid):
        return read(answer)

    return once

  async def score(self, ids: Sequence[int], worker: Any = None) -> np.ndarray:
    """Log-probs [n] at temperature 1, by any server or by this one."""
    read = lambda answer: sglang_answers.to_scores(answer, ids, self.facts)
    return await self.ask(lambda rid: sglang_ask.scores(ids, rid), read, worker)

  async def ask(self, body: Callable, read: Callable, worker=None) -> Any:
    """What `read` makes of the answer to the request `body(rid)`."""
    return await self._ask(self._once(body, read), None, worker)

  async def stream(
    self,
    request: engine.Request,
    sampling: engine.Sampling,
    give: Callable[[engine.Sample], Any],
  ) -> None:
    """Gives the sample as it grows; asked again only before the first piece."""
    sample: engine.Sample | None = None

    async def once(rid: str, worker) -> None:
      nonlocal sample
      started = self.version
      body = self._body(request, sampling, rid) | {'stream': True}
      try:
        async for piece in worker.stream(body, request.session):
          with self._named(piece, worker, rid):
            now = sglang_answers.to_sample(piece, request, sampling, self.facts)
            sample = sglang_answers.grown(
              sample, now, piece['meta_info'], started, self.facts
            )
          give(sample)
      except sglang_worker.Unreachable as error:
        if sample is None:
          raise
        raise sglang_worker.ServerError(f'in a stream: {error}') from error

    await self._ask(once, request.session, None)

  # --- Requests ---------------------------------------------------------------

  async def _ask(self, once: Callable, session: Any, worker: Any) -> Any:
    """What `once` makes of a request, on the first server that succeeds."""
    async for attempt in _tries(self._patience):
      with attempt:
        return await self._try(once, session, worker)
    raise AssertionError('the last attempt returns or raises')

  async def _try(self, once: Callable, session: Any, worker: Any) -> Any:
    # All names are of one length, so that none begins with another.
    rid = f'arl-{self._name}-{next(self._count):012}'
    async with self._turn(session, rid, worker) as chosen:
      return await once(rid, chosen)

  async def _place(self, session: Any, rid: str) -> sglang_worker.Worker:
    """The server for a request, as soon as there is one."""
    clock = asyncio.get_running_loop().time
    end = clock() + self._patience
    while not (alive := {w.url: w for w in self.workers if w.alive}):
      if clock() > end:
        urls = ', '.join(worker.url for worker in self.workers)
        raise sglang_worker.ServerError(
          f'no server could be used for {self._patience} s, of {urls}; see'
          ' their logs.'
        )
      await asyncio.sleep(0.05)
    loads = {url: worker.load for url, worker in alive.items()}
    return alive[self._places.place(session, rid, loads)]

  def _body(
    self, request, sampling, rid: str, salt: str = ''
  ) -> dict[str, Any]:
    return sglang_ask.tokens(
      request,
      sampling,
      self.facts,
      rid=rid,
      seed=sglang_route.seed_of(self._seed, request.path),
      salt=salt or f'{self._name}-{self._changes}',
    )

  @contextlib.asynccontextmanager
  async def _turn(self, session: Any, rid: str, fixed: Any):
    """A server that has room: counted there, and never left running there.

    One that is fixed has to have it.
    """
    while True:
      worker = fixed or await self._place(session, rid)
      worker.load += 1
      try:
        async with contextlib.nullcontext() if fixed else worker.turns:
          if worker.alive or fixed:
            try:
              yield worker
            except sglang_worker.Unreachable as error:
              if error.lost:
                self._doubt(worker)
              await worker.abort(rid)
              raise
            except (asyncio.CancelledError, sglang_worker.ServerError):
              self._start(worker.abort(rid))
              raise
            return
      finally:
        worker.load -= 1

  @contextlib.contextmanager
  def _named(self, answer: Mapping[str, Any], worker, rid: str):
    """Believes an answer only where it is of this request; names both."""
    where = f'{worker.url}, request {rid}'
    if sglang_answers.rid_of(answer) != rid:
      raise sglang_worker.Unreachable(
        f'{where}: the answer is that of {sglang_answers.rid_of(answer)}'
      )
    failed = sglang_answers.aborted_by_error(answer)
    if failed:
      raise sglang_worker.Unreachable(f'{where}: aborted, {failed}')
    try:
      yield
    except (ValueError, LookupError, TypeError, AttributeError) as error:
      raise sglang_worker.ServerError(f'{where}: {error}') from error

  # --- Servers that were lost -------------------------------------------------

  def _start(self, work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.get_running_loop().create_task(work)
    self._tasks.add(task)
    task.add_done_callback(self._tasks.discard)

  def _doubt(self, worker: sglang_worker.Worker) -> None:
    """Takes a server out until it answers again."""
    if worker.alive:
      worker.alive = False
      self._start(self._watch(worker))

  async def _watch(self, worker: sglang_worker.Worker) -> None:
    """Lets a server back in when it holds the weights that all hold."""
    stale = 0
    for attempt in itertools.count():
      with contextlib.suppress(sglang_worker.ServerError):
        name = await worker.version()
        if self._is_current(name):
          worker.alive = True
          return
        stale += 1
        if stale == _STALE:  # longer than it takes to note an update
          warnings.warn(
            f'{worker.url} came back with weights {name!r}, not version'
            f' {self.version}; it is not asked before the next ones.'
          )
      await asyncio.sleep(min(0.05 * 2 ** min(attempt, 10), _LONGEST))

  def _is_current(self, name: str) -> bool:
    try:
      return sglang_answers.number(name, self.facts.names) == self.version
    except ValueError:
      return False
