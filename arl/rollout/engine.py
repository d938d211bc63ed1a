"""What a rollout asks of a sampler: the engine protocol.

An engine holds one version of the policy and continues token sequences. It is
spoken to in ids, never in text, and answers with ids, so nothing is ever
encoded twice. A server and the embedded engine keep the same contract.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

STOP = 'stop'  # the last token is a stop id, or completes a stop text
LENGTH = 'length'  # the token limit came first
ABORT = 'abort'  # it was interrupted: the tokens so far, perhaps none

# What becomes of requests that run when sampling pauses for new weights: they
# end with what they have, go on over a cache of the old weights, or go on and
# their cache is computed anew.
PAUSES = ('abort', 'in_place', 'retract')


class Sampling(NamedTuple):
  """How to choose tokens, for a whole call.

  Attributes:
    temperature: divides the logits; 0 is greedy, and then the log-probs are
      those at temperature 1.
    top_p: keeps the most likely tokens that hold this mass; 1 keeps all.
    top_k: keeps so many most likely tokens; 0 keeps all.
    stop: ids that end a sample and belong to it.
    stop_text: texts that end a sample; it ends with the token that completes
      one. An engine that knows no text refuses them.
    entropy: whether samples come with the entropy of what each token was
      sampled from.
    experts: whether samples come with the experts that each token went through.
  """

  temperature: float = 1.0
  top_p: float = 1.0
  top_k: int = 0
  stop: tuple[int, ...] = ()
  stop_text: tuple[str, ...] = ()
  entropy: bool = False
  experts: bool = False


class Request(NamedTuple):
  """One sequence to continue.

  Attributes:
    tokens: all ids so far.
    max_tokens: the most to sample, at least 1.
    path: folded into the engine's seed one after the other, (step, prompt,
      sample, turn): the randomness of this request, whatever else is in the
      call. As long in every request of a call.
    session: requests of one conversation share it; a hint that the engine may
      still hold what it computed for the earlier turns. Ids decide, not it. Of
      tuples that differ in the last place alone, prompts are alike.
  """

  tokens: Sequence[int]
  max_tokens: int
  path: tuple[int, ...]
  session: Any = None


class Sample(NamedTuple):
  """What an engine sampled.

  Attributes:
    tokens: int32 [n], n >= 1, or 0 where it was interrupted at once.
    logp: float32 [n], of the distribution each token was sampled from.
    finish: STOP, LENGTH or ABORT.
    versions: int32 [n], of the weights that sampled each token.
    entropy: float32 [n], in nats, of the distribution each token was sampled
      from; None unless it was asked for.
    experts: int32 [m - 1, L, K], which K experts each of L layers of a mixture
      chose for the first m - 1 of all m tokens, those of the request included;
      None unless it was asked for.
    cached: how many tokens of the request were not computed again.
  """

  tokens: np.ndarray
  logp: np.ndarray
  finish: str
  versions: np.ndarray
  entropy: np.ndarray | None = None
  experts: np.ndarray | None = None
  cached: int = 0


def cut(sample: Sample, n: int) -> Sample:
  """The first n tokens of a sample, which what they spell ended."""
  experts, rest = sample.experts, len(sample.tokens) - n
  if experts is not None and rest:
    experts = experts[:-rest]
  return sample._replace(
    tokens=sample.tokens[:n],
    logp=sample.logp[:n],
    versions=sample.versions[:n],
    entropy=None if sample.entropy is None else sample.entropy[:n],
    experts=experts,
    finish=STOP,
  )


def first_told(parts: Sequence[np.ndarray]) -> np.ndarray:
  """Experts by token from reports that each begin at the first token.

  Later reports tell of more tokens; what was first told of one stays, since it
  is what that token was sampled through.
  """
  known = 0
  added = []
  for part in parts:
    added.append(part[known:])
    known = max(known, len(part))
  return np.concatenate(added)


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

  def compiles(self) -> dict[str, int]:
    """How many times each function was compiled here; none for a server."""
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
    ('stop_text', all(sampling.stop_text), 'texts, none of them empty'),
  )
  for name, good, wanted in ranges:
    if not good:
      raise ValueError(
        f'sampling: {name} is {getattr(sampling, name)!r}; set it to {wanted}.'
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


def check_scored(
  sequences: Sequence[Sequence[int]],
  temperature: float,
  *,
  vocab: int,
  context: int,
) -> None:
  """Refuses what an engine cannot score.

  Raises:
    ValueError: a sequence that the model cannot read, or a temperature that is
      not above 0.
  """
  if not temperature > 0:
    raise ValueError(f'score: temperature is {temperature}; give one above 0.')
  for i, ids in enumerate(sequences):
    check_ids(f'sequence {i}', ids, vocab=vocab, context=context)


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


def check_sample(sample: Sample, request: Request, sampling: Sampling) -> None:
  """Refuses an answer whose parts disagree, instead of zipping them.

  Raises:
    ValueError: lengths differ, a log-prob is not a log-prob, or the finish
      reason contradicts the tokens.
  """
  n, least = len(sample.tokens), int(sample.finish != ABORT)
  if not least <= n <= request.max_tokens:
    raise ValueError(
      f'the engine gave {n} tokens and says {sample.finish!r}, for a request of'
      f' {least} to {request.max_tokens}; they must agree.'
    )
  for name in ('logp', 'versions', 'entropy'):
    column = getattr(sample, name)
    if column is not None and len(column) != n:
      raise ValueError(
        f'the engine gave {n} tokens and {len(column)} numbers of {name}; they'
        ' must agree.'
      )
  m = len(request.tokens) + n
  if sample.experts is not None and len(sample.experts) != m - 1:
    raise ValueError(
      f'the engine gave the experts of {len(sample.experts)} tokens for a'
      f' sequence of {m}; it must give those of all but the last.'
    )
  if not np.all(np.isfinite(sample.logp)) or np.any(sample.logp > 1e-3):
    raise ValueError(
      f'the engine gave log-probs {sample.logp}, which are not all finite and'
      ' <= 0; look at its weights.'
    )
  _check_finish(sample, sampling)


def _check_finish(sample: Sample, sampling: Sampling) -> None:
  ends = np.isin(sample.tokens, sampling.stop)
  stops = int(np.sum(ends))
  stopped = stops == 1 and bool(ends[-1])
  spelt = (STOP,) if sampling.stop_text else ()
  finish = (STOP,) if stopped else (LENGTH, ABORT, *spelt)
  if (stops and not stopped) or sample.finish not in finish:
    raise ValueError(
      f'the engine gave {sample.tokens} and says {sample.finish!r}, while the'
      f' stop ids are {sampling.stop}; it must end with the first stop token'
      f' and say {STOP!r}, or hold none and say {" or ".join(finish)}.'
    )
