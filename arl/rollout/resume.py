"""Samples that were interrupted go on where they stopped.

An engine may break off what it is sampling, so that new weights reach it at
once. Each token keeps the version and the log-prob that it was sampled with,
and the rest is sampled from the weights there are then, within what is left of
the request's budget.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np

from arl.rollout import engine

Generate = Callable[
  [Sequence[engine.Request], engine.Sampling], list[engine.Sample]
]
Ask = Callable[[engine.Request, engine.Sampling], Awaitable[engine.Sample]]
# Interruptions of one request in a row that give no token.
_PATIENCE = 8


def generate(
  ask: Generate, requests: Sequence[engine.Request], sampling: engine.Sampling
) -> list[engine.Sample]:
  """Samples to the end, however often they are interrupted on the way.

  Args:
    ask: `Engine.generate`; its answers are not believed unchecked.
    requests: to answer. The randomness of what is resumed depends on how much
      was sampled before, so no part repeats another.
    sampling: how to choose tokens.

  Returns:
    A sample a request, in their order, which ended by STOP or LENGTH.

  Raises:
    ValueError: an answer that disagrees with its request.
    RuntimeError: a request is interrupted again and again without a token.
  """
  made: list[engine.Sample | None] = [None] * len(requests)
  going, idle = list(range(len(requests))), 0
  while going:
    rest = [_rest(requests[i], made[i]) for i in going]
    answers = _checked(ask(rest, sampling), rest, sampling)
    idle = 0 if any(len(answer.tokens) for answer in answers) else idle + 1
    if idle == _PATIENCE:
      raise _stuck(len(going))
    for i, answer in zip(going, answers):
      made[i] = _joined(made[i], answer)
    going = [i for i in going if not _ended(requests[i], made[i])]
  return [_closed(sample) for sample in made if sample is not None]


async def sample(
  ask: Ask, request: engine.Request, sampling: engine.Sampling
) -> engine.Sample:
  """One such sample of an engine with coroutines; errors as of `generate`."""
  made: engine.Sample | None = None
  idle = 0
  while made is None or not _ended(request, made):
    rest = _rest(request, made)
    (answer,) = _checked([await ask(rest, sampling)], [rest], sampling)
    idle = 0 if len(answer.tokens) else idle + 1
    if idle == _PATIENCE:
      raise _stuck(1)
    made = _joined(made, answer)
  return _closed(made)


def _stuck(count) -> RuntimeError:
  return RuntimeError(
    f'the engine interrupted {count} requests {_PATIENCE} times without a'
    ' token; let it sample between two updates of its weights.'
  )


def _rest(request, sample) -> engine.Request:
  """What is left to ask for."""
  if sample is None:
    return request
  n = len(sample.tokens)
  return request._replace(
    tokens=(*request.tokens, *sample.tokens.tolist()),
    max_tokens=request.max_tokens - n,
    path=(*request.path, n),
  )


def _checked(answers, requests, sampling) -> list[engine.Sample]:
  if len(answers) != len(requests):
    raise ValueError(
      f'the engine gave {len(answers)} samples for {len(requests)} requests; it'
      ' must answer each, in their order.'
    )
  for answer, request in zip(answers, requests):
    engine.check_sample(answer, request, sampling)
  return answers


def _joined(first, second: engine.Sample) -> engine.Sample:
  """Two parts of one sample; what was known of a token stays."""
  if first is None:
    return second

  def joined(name: str, join: Callable = np.concatenate) -> Any:
    parts = getattr(first, name), getattr(second, name)
    return None if parts[0] is None or parts[1] is None else join(parts)

  return engine.Sample(
    tokens=joined('tokens'),
    logp=joined('logp'),
    finish=second.finish,
    versions=joined('versions'),
    entropy=joined('entropy'),
    experts=joined('experts', engine.first_told),
    cached=first.cached,
  )


def _ended(request, sample) -> bool:
  full = len(sample.tokens) == request.max_tokens
  return sample.finish != engine.ABORT or full


def _closed(sample: engine.Sample) -> engine.Sample:
  """A sample that was interrupted at its last token is one of full length."""
  if sample.finish == engine.ABORT:
    return sample._replace(finish=engine.LENGTH)
  return sample
