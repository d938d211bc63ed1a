"""The answers of the proxy, whole or in pieces; each is recorded as it ends."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from arl.rollout import engine as engine_lib
from arl.rollout import messages as messages_lib
from arl.rollout import templates
from arl.rollout.proxy import reply as proxy_reply
from arl.rollout.proxy import sampling as proxy_sampling


class Speaker(NamedTuple):
  """What it takes to answer one request.

  Attributes:
    engine: what samples.
    settings: the operator's.
    prepared: the request.
    read: finds calls in a text; None where they are not asked for.
  """

  engine: proxy_sampling.Coroutines
  settings: proxy_sampling.Settings
  prepared: proxy_sampling.Prepared
  read: templates.Read | None


def _is_chat(speaker: Speaker) -> bool:
  return speaker.prepared.asked.prompt is None


def _envelope(speaker: Speaker, kind: str) -> dict[str, Any]:
  prepared = speaker.prepared
  id = f'{prepared.rollout.key}-{prepared.numbers[0]}'
  return proxy_reply.envelope(kind, id, speaker.settings.model)


def _ended(
  speaker: Speaker, choice: int, one: proxy_reply.Piece
) -> tuple[dict[str, Any], str]:
  """Records a sample; gives the message that shows it, and why it ended."""
  prepared = speaker.prepared
  number = f'{prepared.rollout.key}_{prepared.numbers[choice]}'
  message = None
  shown: dict[str, Any] = {'content': one.text}
  if _is_chat(speaker):
    shown = proxy_reply.message(
      one, number, speaker.settings.template.thinking, speaker.read
    )
    (message,) = messages_lib.read([shown])
  finish = proxy_reply.finish(one, shown)
  prepared.rollout.add(
    prepared.ids,
    one.sample,
    one.text,
    message=message,
    context=prepared.context,
    parent=prepared.parent,
    limited=prepared.limited and finish == 'length',
  )
  return shown, finish


async def whole(speaker: Speaker) -> dict[str, Any]:
  """The answer in one piece."""
  prepared, settings = speaker.prepared, speaker.settings
  made = await proxy_sampling.every(speaker.engine, settings, prepared)
  chats = _is_chat(speaker)
  told = proxy_reply.logprobs if chats else proxy_reply.text_logprobs
  choices = []
  for index, one in enumerate(made):
    shown, finish = _ended(speaker, index, one)
    given: dict[str, Any] = {'message': shown}
    if not chats:
      given = {'text': shown['content']}
    logprobs = None
    if prepared.asked.logprobs:
      logprobs = told(settings.template.pieces, one.sample)
    choices.append(
      {'index': index, **given, 'finish_reason': finish, 'logprobs': logprobs}
    )
  samples = [one.sample for one in made]
  return {
    **_envelope(speaker, 'chat.completion' if chats else 'text_completion'),
    'choices': choices,
    'usage': proxy_reply.usage(len(prepared.ids), samples),
  }


async def events(speaker: Speaker) -> AsyncIterator[str]:
  """The answer as server-sent events."""
  prepared, chats = speaker.prepared, _is_chat(speaker)
  kind = 'chat.completion.chunk' if chats else 'text_completion'
  head: dict[str, Any] = _envelope(speaker, kind)
  samples: list[engine_lib.Sample] = []

  def event(choice, finish=None, **given):
    made = {'index': choice, 'finish_reason': finish, 'logprobs': None, **given}
    return proxy_reply.event({**head, 'choices': [made]})

  told: list[dict[str, str]] = [{} for _ in range(prepared.asked.n)]
  if chats:
    for choice in range(prepared.asked.n):
      yield event(choice, delta={'role': 'assistant', 'content': ''})
  async for choice, one in _interleaved(speaker):
    finish = None
    if one.sample.finish:
      shown, finish = _ended(speaker, choice, one)
      samples.append(one.sample)
    else:
      shown = _certain(speaker, one)
    for delta in proxy_reply.deltas(shown, told[choice]):
      yield event(
        choice, **({'delta': delta} if chats else {'text': delta['content']})
      )
    if finish:
      given: dict[str, Any] = {'delta': {}} if chats else {'text': ''}
      if prepared.asked.logprobs:
        make = proxy_reply.logprobs if chats else proxy_reply.text_logprobs
        given['logprobs'] = make(speaker.settings.template.pieces, one.sample)
      yield event(choice, finish, **given)
  if prepared.asked.usage:
    usage = proxy_reply.usage(len(prepared.ids), samples)
    yield proxy_reply.event({**head, 'choices': [], 'usage': usage})
  yield proxy_reply.event('[DONE]')


def _certain(speaker: Speaker, one: proxy_reply.Piece) -> dict[str, Any]:
  """What can be shown of a sample that goes on; calls are shown at its end."""
  if speaker.read:
    return {}
  text = proxy_reply.certain(one.text, speaker.prepared.asked.stop)
  if not _is_chat(speaker):
    return {'content': text}
  one = one._replace(text=text)
  return proxy_reply.message(one, '', speaker.settings.template.thinking, None)


async def _interleaved(
  speaker: Speaker,
) -> AsyncIterator[tuple[int, proxy_reply.Piece]]:
  """The pieces of all samples of a request, as they come."""
  queue: asyncio.Queue = asyncio.Queue()
  n = speaker.prepared.asked.n

  async def follow(choice):
    try:
      async for one in proxy_sampling.pieces(
        speaker.engine, speaker.settings, speaker.prepared, choice
      ):
        queue.put_nowait((choice, one))
    except Exception as error:
      queue.put_nowait((choice, error))

  tasks = [asyncio.create_task(follow(choice)) for choice in range(n)]
  try:
    going = n
    while going:
      choice, one = await queue.get()
      if isinstance(one, Exception):
        raise one
      going -= bool(one.sample.finish)
      yield choice, one
  finally:
    for task in tasks:
      task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
