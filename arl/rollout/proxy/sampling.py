"""A request of an agent as one of an engine: budgets, samples, stop texts."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from arl import episode
from arl.rollout import engine as engine_lib
from arl.rollout import messages as messages_lib
from arl.rollout import record, strategies, templates
from arl.rollout.proxy import fields as proxy_fields
from arl.rollout.proxy import reply as proxy_reply


class Coroutines(Protocol):
  """An engine that answers many callers at once."""

  async def sample(
    self, request: engine_lib.Request, sampling: engine_lib.Sampling
  ) -> engine_lib.Sample: ...

  def stream(
    self, request: engine_lib.Request, sampling: engine_lib.Sampling
  ) -> AsyncIterator[engine_lib.Sample]: ...


class Settings(NamedTuple):
  """What the operator decides.

  Attributes:
    template: how the model is spoken to.
    syntax: how it spells calls, a name of `call_syntax.SYNTAXES`.
    sampling: how tokens are chosen; a request may not ask for another way.
    limits: budgets of a rollout; `max_turns` is of its calls.
    model: the name of the model.
  """

  template: templates.Template
  syntax: str
  sampling: engine_lib.Sampling
  limits: strategies.Limits
  model: str = 'policy'


class Limited(Exception):
  """A rollout has used up a budget; `status` says which."""

  def __init__(self, status: str, message: str):
    super().__init__(message)
    self.status = status


class Interrupted(Exception):
  """The engine broke off a sample, which is no answer."""


class Prepared(NamedTuple):
  """A request that is ready for the engine.

  Attributes:
    rollout: what it belongs to.
    asked: its fields.
    ids: of the prompt.
    max_tokens: of each sample.
    limited: whether that is all that is left of a budget of the rollout.
    context: stands for the messages.
    parent: number of the latest call whose answer is in the prompt.
    numbers: of its samples, for their randomness.
  """

  rollout: record.Rollout
  asked: proxy_fields.Asked
  ids: list[int]
  max_tokens: int
  limited: bool
  context: str
  parent: int | None
  numbers: range

  def end(self) -> None:
    """Gives back what was not sampled of the budgets."""
    self.rollout.end(self.asked.n, self.max_tokens)


def prepare(
  settings: Settings,
  rollout: record.Rollout,
  asked: proxy_fields.Asked,
  ids: list[int],
  context: str = '',
  parent: int | None = None,
) -> Prepared:
  """Holds a request to what is left of its rollout's budgets.

  Raises:
    Refused: the rollout is over, or its prompt is none.
    Limited: nothing is left.
  """
  if rollout.status:
    raise messages_lib.Refused(f'this rollout is over: {rollout.status}.')
  try:
    vocab = len(settings.template.tokenizer)
    engine_lib.check_ids('the prompt', ids, vocab=vocab, context=2**31)
  except ValueError as error:
    raise messages_lib.Refused(str(error)) from error
  left = _left(settings.limits, rollout, asked.n, len(ids))
  wanted = left if asked.max_tokens is None else asked.max_tokens
  most = min(left, wanted)
  return Prepared(
    rollout, asked, ids, most, left <= wanted, context, parent,
    rollout.begin(asked.n, most),
  )  # fmt: skip


def _left(limits: strategies.Limits, rollout, n: int, length: int) -> int:
  """Tokens that each of n more samples may have after a prompt.

  What calls under way may still sample is counted as sampled.

  Raises:
    Limited: none.
  """
  begun = len(rollout.calls) + rollout.running
  if begun + n > limits.max_turns:
    raise Limited(
      episode.MAX_TURNS,
      f'this rollout may sample {limits.max_turns} times and did {begun} times;'
      f' this asks for {n} more.',
    )
  taken = rollout.sampled() + rollout.promised
  left = min(
    limits.turn_tokens,
    limits.context - length,
    (limits.response_tokens - taken) // n,
  )
  if left < 1:
    raise Limited(
      episode.MAX_TOKENS,
      f'the prompt has {length} tokens of a context of {limits.context}, and'
      f' {taken} of {limits.response_tokens} are sampled: nothing is left.',
    )
  return left


def _request(prepared: Prepared, choice: int) -> engine_lib.Request:
  rollout, seed = prepared.rollout, prepared.asked.seed
  last = prepared.numbers[choice] if seed is None else seed + choice
  return engine_lib.Request(
    tuple(prepared.ids), prepared.max_tokens, (*rollout.path, last), rollout.key
  )


async def pieces(
  engine: Coroutines, settings: Settings, prepared: Prepared, choice: int
) -> AsyncIterator[proxy_reply.Piece]:
  """What is sampled so far; a sample with a finish is the last.

  Raises:
    Interrupted: it broke off.
    ValueError: the engine's answer contradicts the request.
  """
  stop, request = prepared.asked.stop, _request(prepared, choice)
  sampling = settings.sampling._replace(stop=settings.template.stop)

  def checked(sample):
    part = sample if sample.finish else sample._replace(finish=engine_lib.ABORT)
    engine_lib.check_sample(part, request, sampling)
    if sample.finish == engine_lib.ABORT:
      raise Interrupted('the engine broke off this sample; ask again.')
    made = proxy_reply.piece(
      settings.template.decode, sample, sampling.stop, stop
    )
    if sample.finish or _told(sample, sampling):
      return made
    return made._replace(sample=made.sample._replace(finish=''))

  if not prepared.asked.stream and not stop:
    yield checked(await engine.sample(request, sampling))
    return
  samples: Any = engine.stream(request, sampling)
  async with contextlib.aclosing(samples):
    async for sample in samples:
      made = checked(sample)
      yield made
      if made.sample.finish:  # with a stop text the engine would go on
        return
  raise Interrupted('the engine ended a stream without a finish; ask again.')


def _told(sample: engine_lib.Sample, sampling: engine_lib.Sampling) -> bool:
  """Whether the engine told all of a sample before its end.

  One that tells versions or experts at the end must be heard to the end, even
  where a stop text came before.
  """
  missing = sampling.experts and sample.experts is None
  return not missing and bool(np.all(sample.versions >= 0))


async def last(
  engine: Coroutines, settings: Settings, prepared: Prepared, choice: int
) -> proxy_reply.Piece:
  """The whole sample."""
  made: Any = pieces(engine, settings, prepared, choice)
  async with contextlib.aclosing(made):
    async for piece in made:
      if piece.sample.finish:
        return piece
  raise Interrupted('the engine gave no sample; ask again.')


async def every(
  engine: Coroutines, settings: Settings, prepared: Prepared
) -> list[proxy_reply.Piece]:
  """All samples of a request; where one fails, the others are given up."""
  async with asyncio.TaskGroup() as group:
    tasks = [
      group.create_task(last(engine, settings, prepared, choice))
      for choice in range(prepared.asked.n)
    ]
  return [task.result() for task in tasks]
