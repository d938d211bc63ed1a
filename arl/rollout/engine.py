"""What a rollout asks of a sampler: the engine protocol.

An engine holds one version of the policy and continues token sequences. It is
spoken to in ids, never in text, and answers with ids, so nothing is ever
encoded twice. A server and the embedded engine keep the same contract.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

STOP = 'stop'  # a stop id was sampled; it is the last token of the sample
LENGTH = 'length'  # the token limit came first


class Sampling(NamedTuple):
  """How to choose tokens, for a whole call.

  Attributes:
    temperature: divides the logits; 0 is greedy, and then the log-probs are
      those at temperature 1.
    top_p: keeps the most likely tokens that hold this mass; 1 keeps all.
    top_k: keeps so many most likely tokens; 0 keeps all.
    stop: ids that end a sample and belong to it.
  """

  temperature: float = 1.0
  top_p: float = 1.0
  top_k: int = 0
  stop: tuple[int, ...] = ()


class Request(NamedTuple):
  """One sequence to continue.

  Attributes:
    tokens: all ids so far.
    max_tokens: the most to sample, at least 1.
    path: folded into the engine's seed one after the other, (step, prompt,
      sample, turn): the randomness of this request, whatever else is in the
      call.
    session: requests of one conversation share it; a hint that the engine may
      still hold what it computed for the earlier turns. Ids decide, not it.
  """

  tokens: Sequence[int]
  max_tokens: int
  path: tuple[int, ...]
  session: Any = None


class Sample(NamedTuple):
  """What an engine sampled.

  Attributes:
    tokens: int32 [n], n >= 1.
    logp: float32 [n], of the distribution each token was sampled from.
    finish: STOP or LENGTH.
    version: of the weights that sampled it.
  """

  tokens: np.ndarray
  logp: np.ndarray
  finish: str
  version: int


class Engine(Protocol):
  """A sampler. Samples come back in the order of the requests."""

  def generate(
    self, requests: Sequence[Request], sampling: Sampling
  ) -> list[Sample]: ...

  def score(
    self, sequences: Sequence[Sequence[int]], temperature: float
  ) -> list[np.ndarray]:
    """Log-prob of each token given those before it, [n]; the first is 0."""
    ...

  def set_params(self, params: Any, version: int) -> None:
    """Takes new weights; what was computed with the old ones is forgotten."""
    ...


def check_requests(
  requests: Sequence[Request], *, vocab: int, context: int
) -> None:
  """Refuses what an engine cannot continue.

  Raises:
    ValueError: an empty request, an id outside the vocabulary, no room left.
  """
  for i, request in enumerate(requests):
    n = len(request.tokens)
    if not n:
      raise ValueError(f'request {i} has no tokens; a prompt needs at least 1.')
    low, high = min(request.tokens), max(request.tokens)
    if low < 0 or high >= vocab:
      raise ValueError(
        f'request {i} holds id {high if high >= vocab else low}, but the model'
        f' knows ids 0 to {vocab - 1}; use the tokenizer made for this model.'
      )
    if request.max_tokens < 1 or n + request.max_tokens > context:
      raise ValueError(
        f'request {i} has {n} tokens and asks for {request.max_tokens} more,'
        f' but the context holds {context}; ask for 1 to {context - n}.'
      )


def check_sample(sample: Sample, request: Request, stop: Sequence[int]) -> None:
  """Refuses an answer whose parts disagree, instead of zipping them.

  Raises:
    ValueError: lengths differ, a log-prob is not a log-prob, or the finish
      reason contradicts the last token.
  """
  n = len(sample.tokens)
  if n != len(sample.logp) or not 1 <= n <= request.max_tokens:
    raise ValueError(
      f'the engine gave {n} tokens and {len(sample.logp)} log-probs for a'
      f' request of at most {request.max_tokens}; they must agree.'
    )
  if not np.all(np.isfinite(sample.logp)) or np.any(sample.logp > 1e-3):
    raise ValueError(
      f'the engine gave log-probs {sample.logp}, which are not all finite and'
      ' <= 0; look at its weights.'
    )
  stopped = int(sample.tokens[-1]) in stop
  if stopped != (sample.finish == STOP):
    raise ValueError(
      f'the engine says {sample.finish!r} but the last id is'
      f' {int(sample.tokens[-1])} and the stop ids are {tuple(stop)}; it must'
      ' return the stop token.'
    )
