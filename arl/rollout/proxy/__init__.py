"""An OpenAI endpoint that writes down, token by token, what it sampled.

Any agent that speaks to an OpenAI server can be pointed at it. The key of its
rollout is in the path, `/rollouts/KEY/v1/...`, or is its API key. The endpoint
renders with the template of the model's tokenizer, asks the engine in ids,
answers in text, and takes the sampled ids again where the agent sends an
answer back.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any

from starlette import applications, requests, responses, routing

from arl import episode
from arl.envs import call_syntax
from arl.rollout import chat as chat_lib
from arl.rollout import messages as messages_lib
from arl.rollout import record, templates
from arl.rollout.proxy import answer as proxy_answer
from arl.rollout.proxy import fields as proxy_fields
from arl.rollout.proxy import reply as proxy_reply
from arl.rollout.proxy import sampling as proxy_sampling

_CODES = {
  episode.MAX_TOKENS: 'context_length_exceeded',
  episode.MAX_TURNS: 'max_turns_exceeded',
}
_GONE = 499  # the agent hung up; nobody reads this


class Unknown(Exception):
  """There is no rollout of that key."""

  def __init__(self, key: str):
    super().__init__(
      f'no rollout has the key {key!r}; give one in the path,'
      ' /rollouts/KEY/v1, or as the API key.'
    )
    self.key = key


class Proxy:
  """The endpoint.

  Attributes:
    app: it, as an ASGI application.
    rollouts: by key.
  """

  def __init__(
    self,
    engine: proxy_sampling.Coroutines,
    settings: proxy_sampling.Settings,
    rollouts: Mapping[str, record.Rollout],
    admit: Callable[[str], record.Rollout] | None = None,
  ):
    """Makes a proxy.

    Args:
      engine: what samples.
      settings: the operator's.
      rollouts: by the keys that are known.
      admit: makes the rollout of an unknown key; None where those are refused.

    Raises:
      ValueError: an unknown syntax.
    """
    if settings.syntax not in call_syntax.SYNTAXES:
      raise ValueError(
        f'proxy: no syntax {settings.syntax!r}; known are'
        f' {", ".join(call_syntax.SYNTAXES)}.'
      )
    self._engine, self._settings, self._admit = engine, settings, admit
    self._template = settings.template
    self._syntax = call_syntax.SYNTAXES[settings.syntax]
    self.rollouts = dict(rollouts)
    self.app = applications.Starlette(routes=self._routes())

  def _routes(self) -> list[routing.Route]:
    paths = [
      ('chat/completions', self._chat, 'POST'),
      ('completions', self._completion, 'POST'),
      ('models', self._models, 'GET'),
    ]
    table = [
      (f'{start}/v1/{path}', self._opened, run, method)
      for start in ('', '/rollouts/{key}')
      for path, run, method in paths
    ]
    table += [
      ('/rollouts/{key}/reward', self._known, self._reward, 'POST'),
      ('/rollouts/{key}/finish', self._known, self._finish, 'POST'),
      ('/rollouts/{key}', self._known, self._record, 'GET'),
    ]
    return [
      routing.Route(path, self._answered(find, run), methods=[method])
      for path, find, run, method in table
    ]

  def _answered(self, find, run):
    """The endpoint `run` on the rollout that is found; errors are answers."""

    async def endpoint(request: requests.Request) -> responses.Response:
      rollout = None
      try:
        rollout = find(request)
        return await run(request, rollout)
      except Exception as error:
        if rollout and isinstance(error, proxy_sampling.Limited):
          rollout.limit = rollout.limit or error.status
        status, body = _problem(error)
        if status == 500:
          logging.error('proxy: %s: %s', request.url.path, error)
        return responses.JSONResponse(body, status)

    return endpoint

  def _known(self, request: requests.Request) -> record.Rollout:
    bearer = request.headers.get('authorization', '').removeprefix('Bearer ')
    key = request.path_params.get('key') or bearer.strip()
    if key not in self.rollouts:
      raise Unknown(key)
    return self.rollouts[key]

  def _opened(self, request: requests.Request) -> record.Rollout:
    """The rollout of a key, which may be new."""
    try:
      return self._known(request)
    except Unknown as error:
      if not error.key or not self._admit:
        raise
      made = self.rollouts[error.key] = self._admit(error.key)
      return made

  async def _models(self, request, rollout):
    del request, rollout
    model = {'id': self._settings.model, 'object': 'model', 'owned_by': 'arl'}
    return responses.JSONResponse(
      {'object': 'list', 'data': [{**model, 'created': 0}]}
    )

  async def _reward(self, request, rollout):
    body = await _body(request, 'reward', 'call')
    rollout.grade(body.get('reward'), body.get('call'))
    return responses.JSONResponse({'reward': body['reward']})

  async def _finish(self, request, rollout):
    body = await _body(request, 'status', 'error')
    status = body.get('status', episode.FINISHED)
    rollout.finish(status, str(body.get('error') or ''))
    return responses.JSONResponse({'status': rollout.status})

  async def _record(self, request, rollout):
    del request
    text = ''.join(f'{line}\n' for line in record.lines(rollout))
    return responses.Response(text, media_type='application/jsonl')

  async def _chat(self, request, rollout):
    asked = proxy_fields.chat(await _body(request), self._settings.sampling)
    contexts = messages_lib.contexts(asked.messages)
    found = [
      rollout.find(message, context) if message['role'] == 'assistant' else None
      for message, context in zip(asked.messages, contexts)
    ]
    stop, tools = self._template.stop, proxy_fields.as_tools(asked.tools)
    read = lambda text: self._syntax.read(text, tools)
    ids = templates.prompt(
      self._template,
      asked.messages,
      [call and record.sampled(call, stop) for call in found],
      tools=asked.tools,
      read=read,
      write=self._syntax.write,
    )
    prepared = proxy_sampling.prepare(
      self._settings,
      rollout,
      asked,
      ids,
      contexts[-1],
      max((call.number for call in found if call), default=None),
    )
    return await self._serve(request, prepared, read if tools else None)

  async def _completion(self, request, rollout):
    asked = proxy_fields.completion(
      await _body(request), self._settings.sampling
    )
    ids = asked.prompt
    if isinstance(ids, str):
      text = chat_lib.clean(ids, 'prompt', self._template.specials)
      ids = chat_lib.plain(self._template.tokenizer, text)
    prepared = proxy_sampling.prepare(
      self._settings, rollout, asked, list(ids or ())
    )
    return await self._serve(request, prepared, None)

  async def _serve(self, request, prepared, read):
    speaker = proxy_answer.Speaker(self._engine, self._settings, prepared, read)
    if prepared.asked.stream:
      return responses.StreamingResponse(
        _told(proxy_answer.events(speaker), prepared),
        media_type='text/event-stream',
      )
    try:
      made = await _unless_gone(request, proxy_answer.whole(speaker))
    finally:
      prepared.end()
    if made is None:
      return responses.Response(status_code=_GONE)
    return responses.JSONResponse(made)


async def _unless_gone(request: requests.Request, work: Coroutine) -> Any:
  """What the work gives; None, and the work given up, once the agent hung up.

  What nobody waits for is not sampled to its end, and not recorded.
  """

  async def gone():
    while (await request.receive())['type'] != 'http.disconnect':
      pass

  working, watching = asyncio.create_task(work), asyncio.create_task(gone())
  try:
    await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
    return working.result() if working.done() else None
  finally:
    working.cancel()
    watching.cancel()
    await asyncio.gather(working, watching, return_exceptions=True)


async def _told(
  events: AsyncIterator[str], prepared: proxy_sampling.Prepared
) -> AsyncIterator[str]:
  """The events; where one fails, an event that says so."""
  try:
    async for event in events:
      yield event
  except Exception as error:
    yield proxy_reply.event(_problem(error)[1])
  finally:
    await events.aclose()  # type: ignore[attr-defined]
    prepared.end()


async def _body(request: requests.Request, *known: str) -> Any:
  """The JSON of a request, with the fields `known` at most, if any are given.

  Raises:
    Refused: it is none, or has other fields.
  """
  try:
    body = json.loads(await request.body())
  except ValueError as error:
    raise messages_lib.Refused(
      f'the body of the request is not JSON: {error}.'
    ) from error
  if known and not isinstance(body, dict):
    raise messages_lib.Refused('the body of the request is a JSON object.')
  for key in body if known else ():
    if key not in known:
      raise messages_lib.Refused(f'{key}: there is no such field here.')
  return body


def _problem(error: Exception) -> tuple[int, dict[str, Any]]:
  """The status and the body of the answer that says what went wrong."""
  match error:
    case ExceptionGroup():
      return _problem(error.exceptions[0])
    case proxy_sampling.Limited():
      status, code = 400, _CODES[error.status]
    case Unknown():
      status, code = 401, 'invalid_api_key'
    case proxy_sampling.Interrupted():
      status, code = 503, 'interrupted'
    case messages_lib.Refused() | chat_lib.UnfitText() | templates.Unfit():
      status, code = 400, 'invalid_request'
    case _:
      status, code = 500, 'engine_error'
  kind = 'invalid_request_error' if status < 500 else 'server_error'
  told = {'message': str(error), 'type': kind, 'param': None, 'code': code}
  return status, {'error': told}
