"""One SGLang server: its HTTP calls, and what their failures mean."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Hashable, Mapping
from typing import Any

import httpx

from arl.rollout.sglang import route

_CONNECT = 5.0  # seconds to open a connection
_SHORT = 10.0  # seconds for calls that answer at once


logging.getLogger('httpx').setLevel(logging.WARNING)  # a line a request


class ServerError(RuntimeError):
  """A server refused a call, or answered what cannot be used.

  Attributes:
    status: of the answer, as HTTP counts; 0 where it is not about that.
  """

  def __init__(self, message: str, *, status: int = 0):
    super().__init__(message)
    self.status = status


class Unreachable(ServerError):
  """A call failed in a way that the same call, made again, may not.

  Attributes:
    lost: whether the connection failed, so that the server may be gone.
  """

  def __init__(self, message: str, *, lost: bool = False):
    super().__init__(message)
    self.lost = lost


def said(text: str) -> str:
  """The sentence in an error's body, of which servers have three shapes."""
  try:
    body = json.loads(text)
  except ValueError:
    return text.strip()[:500] or 'nothing'
  if isinstance(body, dict):
    error = body.get('error', body)
    if isinstance(error, dict):
      error = error.get('message', error)
    return str(error)
  return str(body)


def parse(text: str, where: str) -> dict[str, Any]:
  """A JSON object.

  Raises:
    Unreachable: it is cut off, garbled, or something else.
  """
  try:
    body = json.loads(text)
  except ValueError as error:
    raise Unreachable(f'{where}: no JSON came back ({error})') from error
  if not isinstance(body, dict):
    raise Unreachable(f'{where}: {text[:80]!r} came back, not an object')
  return body


def check_status(response: httpx.Response, where: str) -> None:
  """Raises what an unsuccessful status means: 5xx may pass, 4xx does not."""
  if response.is_success:
    return
  what = f'{where}: status {response.status_code}, {said(response.text)}'
  if response.is_server_error:
    raise Unreachable(what)
  raise ServerError(what, status=response.status_code)


class Worker:
  """One server, and what is known about it.

  Attributes:
    url: of the server.
    load: requests placed here that are not finished.
    alive: whether requests may be placed here.
    turns: admits so many requests at a time.
  """

  def __init__(self, url: str, *, limit: int, timeout: float):
    """Makes a worker; connections open when they are needed.

    Args:
      url: of the server.
      limit: requests at a time; more of them wait here.
      timeout: seconds between two pieces of an answer.
    """
    self.url = url.rstrip('/')
    self.load, self.alive = 0, True
    self.turns = asyncio.Semaphore(limit)
    self._timeout = timeout
    self._data = self._client(timeout, limit)
    # A connection of its own for each, so that no late answer can be taken for
    # that of another call: these answers name no request.
    self._control = self._client(_SHORT, 0)

  def _client(self, timeout: float, kept: int) -> httpx.AsyncClient:
    return httpx.AsyncClient(
      base_url=self.url,
      timeout=httpx.Timeout(timeout, connect=_CONNECT, pool=None),
      limits=httpx.Limits(max_connections=None, max_keepalive_connections=kept),
      trust_env=False,
    )

  async def close(self) -> None:
    await self._data.aclose()
    await self._control.aclose()

  @contextlib.contextmanager
  def _transport(self, path: str):
    """Turns what the connection raises into Unreachable."""
    try:
      yield
    except httpx.HTTPError as error:
      kind = type(error).__name__
      what = f'{self.url}{path}: {kind} {error}'.rstrip()
      raise Unreachable(what, lost=True) from error

  async def generate(
    self, body: Mapping[str, Any], session: Hashable = None
  ) -> dict[str, Any]:
    """The answer to one request, unchecked.

    Args:
      body: of the request.
      session: that it belongs to, which its headers tell.
    """
    where = f'{self.url}/generate, request {body["rid"]}'
    headers = route.header(session)
    with self._transport('/generate'):
      response = await self._data.post('/generate', json=body, headers=headers)
    check_status(response, where)
    return parse(response.text, where)

  async def stream(
    self, body: Mapping[str, Any], session: Hashable = None
  ) -> AsyncIterator[dict[str, Any]]:
    """The pieces of the answer to one request, unchecked, to the end.

    Raises:
      Unreachable: also where the stream ends before it says so.
    """
    where = f'{self.url}/generate, request {body["rid"]}'
    headers = route.header(session)
    with self._transport('/generate'):
      async with self._data.stream(
        'POST', '/generate', json=body, headers=headers
      ) as response:
        if not response.is_success:
          await response.aread()
          check_status(response, where)
        async for line in response.aiter_lines():
          name, _, data = line.partition(':')
          if name != 'data':
            continue
          if data.strip() == '[DONE]':
            return
          piece = parse(data, where)
          if 'error' in piece:
            raise ServerError(f'{where}: {said(data)}')
          yield piece
    raise Unreachable(f'{where}: the stream ended early')

  async def get(self, path: str) -> dict[str, Any]:
    """What the server says about itself."""
    with self._transport(path):
      response = await self._control.get(path)
    check_status(response, self.url + path)
    return parse(response.text, self.url + path)

  async def post(
    self, path: str, body: Mapping[str, Any], timeout: float | None = None
  ) -> dict[str, Any]:
    """A call that controls the server.

    Args:
      path: of the call.
      body: of the call.
      timeout: seconds it may take; None for that of requests.

    Raises:
      ServerError: anything but success; also where the answer says so itself.
    """
    where = self.url + path
    with self._transport(path):
      response = await self._control.post(
        path, json=body, timeout=timeout or self._timeout
      )
    check_status(response, where)
    answer = {}
    with contextlib.suppress(Unreachable):  # some of these answer in text
      answer = parse(response.text, where)
    if answer.get('success') is False:
      raise ServerError(f'{where}: {answer.get("message")}')
    return answer

  async def version(self) -> str:
    """The name of the weights it holds, as the server spells it."""
    about = await self.get('/model_info')
    if not isinstance(about.get('weight_version'), str):
      raise ServerError(
        f'{self.url}/model_info names no weight_version; arl needs SGLang'
        ' 0.5.20 or newer.'
      )
    return about['weight_version']

  async def abort(self, rid: str) -> None:
    """Stops a request, where the server can be reached; closing a connection
    does not."""
    with contextlib.suppress(ServerError):
      await self.post('/abort_request', {'rid': rid}, _SHORT)
