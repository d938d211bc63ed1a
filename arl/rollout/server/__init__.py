"""The embedded engine behind SGLang's HTTP contract, native and OpenAI's.

An ASGI application. Where it differs from SGLang it is stricter: a field that
is unknown or cannot be honoured is refused by its name, ids outside the
vocabulary are an error, seeds always count, and a client that goes away takes
its request with it. `custom_params: {"path": [...]}` among the sampling
parameters is the randomness of a request of arl's own client.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from starlette import applications, requests, responses, routing

from arl.rollout.server import answers as server_answers
from arl.rollout.server import control as server_control
from arl.rollout.server import fields as server_fields
from arl.rollout.server import jobs as server_jobs
from arl.rollout.server import meta as server_meta
from arl.rollout.server import openai as server_openai
from arl.rollout.server import openai_fields as server_openai_fields
from arl.rollout.server import state as server_state

Handler = Callable[[requests.Request], Awaitable[responses.Response]]


class Gone(Exception):
  """The client went away."""


def reply(content: Any, status: int = 200) -> responses.Response:
  """JSON."""
  text = json.dumps(content, ensure_ascii=False, separators=(',', ':'))
  return responses.Response(
    text.encode(errors='backslashreplace'),
    status,
    media_type='application/json',
  )


def refusal(message: str, status: int = 400) -> responses.Response:
  """An error in SGLang's shape."""
  return reply({'error': {'message': message}}, status)


async def body_of(request: requests.Request) -> Any:
  """The JSON of a request; None where there is none."""
  text = await request.body()
  if not text:
    return None
  try:
    return json.loads(text)
  except ValueError as error:
    raise server_fields.Refused(f'the body is no JSON: {error}') from error


def guarded(handler: Handler) -> Handler:
  """A handler whose errors are answers."""

  async def run(request: requests.Request) -> responses.Response:
    try:
      return await handler(request)
    except server_fields.Refused as error:
      return refusal(str(error), error.status)
    except ValueError as error:
      return refusal(str(error))
    except Gone:
      return responses.Response(status_code=499)
    except RuntimeError as error:
      return refusal(str(error), 500)

  return run


async def unless_gone(request: requests.Request, work: Awaitable) -> Any:
  """What `work` gives; cancels it when the client goes away.

  Raises:
    Gone: it did.
  """

  async def leaves():
    while (await request.receive())['type'] != 'http.disconnect':
      pass

  task, gone = asyncio.ensure_future(work), asyncio.ensure_future(leaves())
  try:
    await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
      raise Gone
    return task.result()
  finally:
    gone.cancel()
    if not task.done():
      task.cancel()
      await asyncio.gather(task, return_exceptions=True)


def events(pieces: AsyncGenerator[Any, None]) -> responses.Response:
  """Server-sent events of JSON, with [DONE] at the end."""

  async def lines():
    async with contextlib.aclosing(pieces) as each:
      try:
        async for piece in each:
          text = json.dumps(piece, ensure_ascii=False, separators=(',', ':'))
          yield f'data: {text}\n\n'.encode(errors='backslashreplace')
      except (ValueError, RuntimeError) as error:
        failed = {'message': str(error), 'type': 'error', 'code': 500}
        yield f'data: {json.dumps({"error": failed})}\n\n'.encode()
    yield b'data: [DONE]\n\n'

  return responses.StreamingResponse(lines(), media_type='text/event-stream')


def _generate(serving: server_state.Serving) -> Handler:
  async def run(request):
    given = await body_of(request)
    jobs, listed, stream = server_jobs.jobs(given, serving.limits)
    serving.enter(jobs)
    if stream:
      return events(server_answers.stream(serving, jobs, listed))
    try:
      made = await unless_gone(request, server_answers.whole(serving, jobs))
    finally:
      serving.leave(jobs)
    bodies = [
      server_meta.body(serving, job, *each) for job, each in zip(jobs, made)
    ]
    return reply(bodies if listed else bodies[0])

  return run


def _openai(
  serving: server_state.Serving, kind: server_openai_fields.Kind
) -> Handler:
  async def run(request):
    given = await body_of(request)
    call = server_openai_fields.read(serving, given, kind)
    serving.enter(call.jobs)
    if call.stream:
      return events(server_openai.stream(serving, call))
    try:
      work = server_answers.whole(serving, call.jobs)
      made = await unless_gone(request, work)
    finally:
      serving.leave(call.jobs)
    return reply(server_openai.whole(serving, call, made))

  return run


def make(serving: server_state.Serving) -> applications.Starlette:
  """The application of a server."""
  control = server_control

  def says(function) -> Handler:
    async def run(request):
      return reply(function(serving))

    return run

  def does(function) -> Handler:
    async def run(request):
      made = function(serving, await body_of(request))
      if asyncio.iscoroutine(made):
        made = await made
      if made is None:
        return responses.Response()
      return made if isinstance(made, responses.Response) else reply(made)

    return run

  async def health(request):
    return responses.Response(status_code=await control.health(serving))

  async def ready(request):
    return responses.Response(status_code=503 if serving.engine.paused else 200)

  async def flush(request):
    return await control.flush(serving)

  get, post, both = ['GET'], ['POST'], ['GET', 'POST']
  native = ['POST', 'PUT']
  table: list[tuple[str, Handler, list[str]]] = [
    ('/generate', _generate(serving), native),
    ('/v1/chat/completions', _openai(serving, server_openai_fields.CHAT), post),
    ('/v1/completions', _openai(serving, server_openai_fields.TEXT), post),
    ('/health', ready_always, get),
    ('/health_generate', health, get),
    ('/ready', ready, get),
    ('/model_info', says(control.model_info), get),
    ('/get_model_info', says(control.model_info), get),
    ('/server_info', says(control.server_info), get),
    ('/get_server_info', says(control.server_info), get),
    ('/v1/models', says(control.models), get),
    ('/v1/loads', says(control.loads), get),
    ('/flush_cache', flush, both),
    ('/abort_request', does(control.abort), post),
    ('/pause_generation', does(control.pause), post),
    ('/continue_generation', does(control.resume), post),
    ('/update_weights_from_disk', does(control.from_disk), post),
    ('/update_weight_version', does(control.rename), post),
    ('/begin_weight_update', does(control.by_value), post),
    ('/update_weights_from_tensor', does(control.by_value), post),
    ('/update_weights_from_distributed', does(control.by_value), post),
    ('/end_weight_update', does(control.by_value), post),
    ('/weights_checker', does(control.checker), post),
    ('/tokenize', does(control.tokenize), post),
  ]
  routes = [
    routing.Route(path, guarded(handler), methods=methods)
    for path, handler, methods in table
  ]
  return applications.Starlette(routes=routes)


async def ready_always(request: requests.Request) -> responses.Response:
  """GET /health: the process answers."""
  return responses.Response()
