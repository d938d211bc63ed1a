"""A canned engine: it says what a function tells it to. For tests and demos."""

from collections.abc import Callable, Sequence

import numpy as np

from arl.rollout import engine, stop_text


class ScriptedEngine:
  """Answers with the ids of `script(request)`, followed by the stop id.

  Attributes:
    script: maps a request to the ids to say, without the stop id.
    calls: every request seen, for assertions.
  """

  def __init__(
    self, script: Callable[[engine.Request], Sequence[int]], vocab: int
  ):
    self.script = script
    self.vocab = vocab
    self.version = 0
    self.calls: list[engine.Request] = []

  def generate(
    self, requests: Sequence[engine.Request], sampling: engine.Sampling
  ) -> list[engine.Sample]:
    stop_text.refuse(sampling)
    return [self._answer(request, sampling.stop) for request in requests]

  def _answer(self, request, stop):
    self.calls.append(request)
    ids = [*self.script(request), *stop[:1]][: request.max_tokens]
    finish = engine.STOP if ids[-1] in stop else engine.LENGTH
    logp = np.full(len(ids), -np.log(self.vocab), np.float32)
    versions = np.full(len(ids), self.version, np.int32)
    return engine.Sample(np.array(ids, np.int32), logp, finish, versions)

  def score(
    self, sequences: Sequence[Sequence[int]], temperature: float
  ) -> list[np.ndarray]:
    def uniform(n):
      logp = np.full(n, -np.log(self.vocab), np.float32)
      logp[:1] = 0
      return logp

    return [uniform(len(sequence)) for sequence in sequences]

  def set_params(self, params, version: int) -> None:
    self.version = version

  def compiles(self) -> dict[str, int]:
    return {}
