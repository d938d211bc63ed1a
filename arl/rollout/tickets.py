"""A request on its way through an engine, and what has been sampled of it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from arl.rollout import engine

Tree = Any  # dicts and tuples of numpy arrays


class Wanted(NamedTuple):
  """What a server may ask beside an engine.Sampling.

  Attributes:
    top: how many of the likeliest ids to tell of each token.
    watched: ids whose log-probs to tell of each token.
    kept: whether to tell which ids each token was sampled from.
    min_p: leaves out what is less likely than so many times the likeliest.
    least: no stop id is sampled among so many first tokens.
  """

  top: int = 0
  watched: tuple[int, ...] = ()
  kept: bool = False
  min_p: float = 0.0
  least: int = 0


class Result(NamedTuple):
  """What an engine knows of a request.

  Attributes:
    sample: what was sampled; its finish is '' until the last result.
    told: by name what sampler.choose_each tells, an array over tokens.
    retractions: how often it had to start again from its tokens.
    queued: whether nothing of it was ever computed.
  """

  sample: engine.Sample
  told: dict[str, Tree]
  retractions: int
  queued: bool


Sink = Callable[[Result | Exception, bool], None]  # and whether it is the last


class Ticket:
  """One request, owned by the thread that computes.

  Attributes:
    request: the request.
    sampling: how to choose tokens.
    wanted: what else was asked.
    name: by which it can be aborted.
    each: whether every piece is sunk, or the last result only.
    sink: takes the results.
    loop: the event loop to call it in; None for the thread that computes.
    tokens: int32 [m], of the request and sampled.
    slot: where it is computed; -1 while it waits.
    fed: how many tokens the slot holds.
    epoch: of the weights when it was admitted.
    key: uint32 [2], of its randomness.
    retractions: how often it was sent back to wait.
  """

  def __init__(
    self,
    request: engine.Request,
    sampling: engine.Sampling,
    wanted: Wanted,
    name: str,
    each: bool,
    sink: Sink,
    loop: Any,
  ):
    self.request, self.sampling, self.wanted = request, sampling, wanted
    self.name, self.each, self.sink, self.loop = name, each, sink, loop
    self.tokens = np.asarray(request.tokens, np.int32)
    self.slot, self.fed, self.epoch = -1, 0, 0
    self.key: np.ndarray | None = None
    self.retractions = 0
    self._cached = -1
    self._told: list[Tree] = []
    self._versions = np.zeros(0, np.int32)

  @property
  def done(self) -> int:
    """How many tokens were sampled."""
    return len(self._versions)

  @property
  def truncated(self) -> bool:
    """Whether it is not sampled from all ids."""
    s = self.sampling
    cut = s.top_p < 1 or s.top_k > 0 or self.wanted.min_p > 0
    return s.temperature > 0 and cut

  def admit(self, slot: int, shared: int, epoch: int) -> None:
    """It begins, or begins again, with what a slot holds of it."""
    self.slot, self.fed, self.epoch = slot, shared, epoch
    if self._cached < 0:
      self._cached = shared

  def take(self, ids: np.ndarray, told: Tree, version: int) -> None:
    """Appends tokens [n] and what is told of them [n, ...]."""
    self.tokens = np.concatenate([self.tokens, ids])
    versions = np.full(len(ids), version, np.int32)
    self._versions = np.concatenate([self._versions, versions])
    self._told.append(jax.tree.map(np.array, told))  # no view of its pass

  def result(self, finish: str, experts: np.ndarray | None = None) -> Result:
    """What is known so far."""
    join = lambda *parts: np.concatenate(parts)
    told = jax.tree.map(join, *self._told) if self._told else {}
    n = self.done
    sample = engine.Sample(
      tokens=self.tokens[len(self.tokens) - n :],
      logp=told['logp'] if told else np.zeros(0, np.float32),
      finish=finish,
      versions=self._versions,
      entropy=self._entropy(told),
      experts=experts,
      cached=max(self._cached, 0),
    )
    return Result(sample, told, self.retractions, self._cached < 0)

  def _entropy(self, told):
    if not self.sampling.entropy:
      return None
    return told['entropy'] if told else np.zeros(0, np.float32)
