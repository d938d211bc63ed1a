"""What a rollout asks of a sampler: the engine protocol.

An engine holds one version of the policy and continues token sequences. It is
spoken to in ids, never in text, and answers with ids, so nothing is ever
encoded twice. A server and the embedded engine keep the same contract.
"""

import math
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
    entropy: whether samples come with the entropy of what each token was
      sampled from.
  """

  temperature: float = 1.0
  top_p: float = 1.0
  top_k: int = 0
  stop: tuple[int, ...] = ()
  entropy: bool = False


class Request(NamedTuple):
  """One sequence to continue.

  Attributes:
    tokens: all ids so far.
    max_tokens: the most to sample, at least 1.
    path: folded into the engine's seed one after the other, (step, prompt,
      sample, turn): the randomness of this request, whatever else is in the
      call. As long in every request of a call.
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
    entropy: float32 [n], in nats, of the distribution each token was sampled
      from; None unless it was asked for.
  """

  tokens: np.ndarray
  logp: np.ndarray
  finish: str
  version: int
  entropy: np.ndarray | None = None


class Engine(Protocol):
  """A sampler. Samples come back in the order of the requests."""

  def generate(
    self, requests: Sequence[Request], sampling: Sampling
  ) -> list[Sample]: ...

  def score(
    self, sequences: Sequence[Sequence[int]], temperature: float
  ) -> list[np.ndarray]:
    """Log-prob of each token given those before it, [n]; the first is 0.

    Under softmax(logits / temperature), temperature > 0; nothing is truncated.
    """
    ...

  def set_params(self, params: Any, version: int) -> None:
    """Takes new weights; what was computed with the old ones is forgotten."""
    ...


def check_sampling(sampling: Sampling) -> None:
  """Refuses numbers that describe no distribution.

  Raises:
    ValueError: naming the one that is out of range.
  """
  ranges = (
    ('temperature', 0 <= sampling.temperature < math.inf, '0 or more'),
    ('top_p', 0 < sampling.top_p <= 1, 'more than 0 and at most 1'),
    ('top_k', sampling.top_k >= 0, '0 for all, or more'),
  )
  for name, good, wanted in ranges:
    if not good:
      raise ValueError(
        f'sampling: {name} is {getattr(sampling, name)}; set it to {wanted}.'
      )


def check_ids(
  what: str, ids: Sequence[int], *, vocab: int, context: int
) -> None:
  """Refuses a sequence that a model cannot read.

  Args:
    what: names it in the message.
    ids: the sequence.
    vocab: how many ids the model knows.
    context: tokens of the longest sequence.

  Raises:
    ValueError: it is empty or too long, or an id is outside the vocabulary.
  """
  n = len(ids)
  if not 1 <= n <= context:
    raise ValueError(
      f'{what} has {n} tokens, but the context holds {context}; give 1 to'
      f' {context}.'
    )
  low, high = min(ids), max(ids)
  if low < 0 or high >= vocab:
    raise ValueError(
      f'{what} holds id {high if high >= vocab else low}, but the model knows'
      f' ids 0 to {vocab - 1}; use the tokenizer made for this model.'
    )


def check_requests(
  requests: Sequence[Request], *, vocab: int, context: int
) -> None:
  """Refuses what an engine cannot continue.

  Raises:
    ValueError: an empty request, an id outside the vocabulary, no room left,
      or paths of different lengths.
  """
  for i, request in enumerate(requests):
    check_ids(f'request {i}', request.tokens, vocab=vocab, context=context - 1)
    n, room = len(request.tokens), context - len(request.tokens)
    if not 1 <= request.max_tokens <= room:
      raise ValueError(
        f'request {i} has {n} tokens and asks for {request.max_tokens} more,'
        f' but the context holds {context}; ask for 1 to {room}.'
      )
    if len(request.path) != len(requests[0].path):
      raise ValueError(
        f'request {i} has the path {request.path}, request 0'
        f' {requests[0].path}; give the paths of a call one length.'
      )


def check_sample(sample: Sample, request: Request, stop: Sequence[int]) -> None:
  """Refuses an answer whose parts disagree, instead of zipping them.

  Raises:
    ValueError: lengths differ, a log-prob is not a log-prob, or the finish
      reason contradicts the tokens.
  """
  n = len(sample.tokens)
  if n != len(sample.logp) or not 1 <= n <= request.max_tokens:
    raise ValueError(
      f'the engine gave {n} tokens and {len(sample.logp)} log-probs for a'
      f' request of at most {request.max_tokens}; they must agree.'
    )
  if sample.entropy is not None and len(sample.entropy) != n:
    raise ValueError(
      f'the engine gave {n} tokens and {len(sample.entropy)} entropies; they'
      ' must agree.'
    )
  if not np.all(np.isfinite(sample.logp)) or np.any(sample.logp > 1e-3):
    raise ValueError(
      f'the engine gave log-probs {sample.logp}, which are not all finite and'
      ' <= 0; look at its weights.'
    )
  ends = np.isin(sample.tokens, stop)
  finish = STOP if ends[-1] else LENGTH
  if np.any(ends[:-1]) or sample.finish != finish:
    raise ValueError(
      f'the engine gave {sample.tokens} and says {sample.finish!r}, while the'
      f' stop ids are {tuple(stop)}; it must end with the first stop token and'
      f' say {STOP!r}, or hold none and say {LENGTH!r}.'
    )
