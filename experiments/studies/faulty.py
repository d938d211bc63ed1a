"""An HTTP server on loopback that misbehaves on purpose, byte by byte.

What it answers, another function decides: one that pretends to be a server of
models, or one that forwards to a real one. What goes wrong, a third decides for
each request. It lives in a thread of its own.
"""

import asyncio
import contextlib
import json
import random
import socket
import threading
from collections.abc import (
  AsyncIterator,
  Awaitable,
  Callable,
  Sequence,
)
from typing import Any, NamedTuple

import httpx

FAULTS = (
  'reset',  # the connection breaks before anything was done
  'lost',  # it breaks when the answer was ready
  'error',  # status 500
  'hang',  # nothing comes, ever
  'truncated',  # half of the answer comes
  'garbled',  # some of its bytes are others
  'duplicated',  # it comes twice
  'swapped',  # two requests get each other's answers
)


class Answer(NamedTuple):
  """What is sent back.

  Attributes:
    status: as HTTP counts.
    body: of the answer, or the pieces of a stream.
  """

  status: int
  body: bytes | AsyncIterator[bytes]


Body = dict[str, Any] | None  # of a request; None where it only gets
# (path, body) -> what to answer.
Respond = Callable[[str, Body], Awaitable[Answer]]
# (path, body) -> one of FAULTS, or '' for none.
Choose = Callable[[str, Body], str]


def never(path: str, body: Body) -> str:
  """No faults."""
  del path, body
  return ''


def sometimes(rate: float, faults: Sequence[str], seed: int) -> Choose:
  """Faults of /generate at random, alike often."""
  rng = random.Random(seed)

  def choose(path, body):
    del body
    at_risk = path == '/generate' and rng.random() < rate
    return rng.choice(faults) if at_risk else ''

  return choose


def forward(url: str) -> Respond:
  """Answers as the server at a url does."""
  client = httpx.AsyncClient(base_url=url, timeout=None, trust_env=False)

  async def respond(path, body):
    method = 'GET' if body is None else 'POST'
    got = await client.request(method, path, json=body)
    return Answer(got.status_code, got.content)

  return respond


class Faulty:
  """The server; a context manager.

  Attributes:
    url: where it listens.
    seen: how often each fault happened.
  """

  def __init__(self, respond: Respond, choose: Choose = never):
    self._respond, self.choose = respond, choose
    self.seen: dict[str, int] = {}
    self._loop = asyncio.new_event_loop()
    self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
    self._open: set[asyncio.StreamWriter] = set()
    self._tasks: set[asyncio.Task] = set()
    self._swapping: asyncio.Future | None = None
    self._port, self._server = 0, None

  @property
  def url(self) -> str:
    return f'http://127.0.0.1:{self._port}'

  def __enter__(self) -> 'Faulty':
    self._thread.start()
    self.start()
    return self

  def __exit__(self, *error) -> None:
    self.kill()
    self._loop.call_soon_threadsafe(self._loop.stop)
    self._thread.join()

  def run(self, work) -> Any:
    """The result of a coroutine, run where the server runs."""
    return asyncio.run_coroutine_threadsafe(work, self._loop).result()

  def start(self) -> None:
    """Listens, again where it listened before."""
    self.run(self._start())

  def kill(self) -> None:
    """Breaks every connection and stops listening, as a crash does."""
    self.run(self._kill())

  async def _start(self) -> None:
    self._server = await asyncio.start_server(
      self._serve, '127.0.0.1', self._port
    )
    self._port = self._server.sockets[0].getsockname()[1]

  async def _kill(self) -> None:
    if self._server is not None:
      self._server.close()
    for task in list(self._tasks):
      task.cancel()
    for writer in list(self._open):
      _break(writer)

  async def _serve(self, reader, writer) -> None:
    task = asyncio.current_task()
    self._tasks.add(task)
    self._open.add(writer)
    try:
      while await self._one(reader, writer):
        pass
    except (
      ConnectionError,
      asyncio.CancelledError,
      asyncio.IncompleteReadError,
    ):
      pass  # the other side left, or this one was killed
    finally:
      self._tasks.discard(task)
      self._open.discard(writer)
      writer.close()

  async def _one(self, reader, writer) -> bool:
    """Answers one request; whether the connection may go on."""
    head = await reader.readuntil(b'\r\n\r\n')
    first, *lines = head.decode().split('\r\n')
    headers = {
      key.lower(): value.strip()
      for key, _, value in (line.partition(':') for line in lines)
    }
    data = await reader.readexactly(int(headers.get('content-length', 0)))
    path = first.split()[1].partition('?')[0]
    body = json.loads(data) if data else None
    fault = self.choose(path, body)
    if fault:
      self.seen[fault] = self.seen.get(fault, 0) + 1
    if fault == 'reset':
      return _break(writer)
    if fault == 'hang':
      await reader.read(1)  # until the other side leaves
      return _break(writer)
    answer = await self._respond(path, body)
    if fault == 'lost':
      return _break(writer)
    if fault == 'swapped':
      answer = await self._swap(answer)
    if not isinstance(answer.body, bytes):
      return await _stream(writer, answer.body, fault)
    return await _send(writer, answer.status, answer.body, fault)

  async def _swap(self, answer: Answer) -> Answer:
    """Exchanges answers with the next request that is to be swapped."""
    other = self._swapping
    if other is not None and not other.done():
      self._swapping = None
      mine: asyncio.Future = self._loop.create_future()
      other.set_result((answer, mine))
      return await mine
    self._swapping = self._loop.create_future()
    try:
      theirs, back = await asyncio.wait_for(self._swapping, 1.0)
    except TimeoutError:
      return answer  # nobody came
    back.set_result(answer)
    return theirs


def _break(writer: asyncio.StreamWriter) -> bool:
  """Resets a connection."""
  with contextlib.suppress(OSError):
    raw = writer.get_extra_info('socket')
    # Lingering for no time at all: what is under way is dropped.
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\1\0\0\0\0\0\0\0')
  writer.transport.abort()
  return False


async def _send(writer, status: int, data: bytes, fault: str) -> bool:
  if fault == 'error':
    status, data = 500, b'{"error": {"message": "internal"}}'
  if fault == 'garbled':
    half = len(data) // 2
    data = data[:half] + b'\xff}{' + data[half + 3 :]
  head = (
    f'HTTP/1.1 {status} x\r\ncontent-type: application/json\r\n'
    f'content-length: {len(data)}\r\n\r\n'
  ).encode()
  if fault == 'truncated':
    data = data[: len(data) // 2]
  for _ in range(2 if fault == 'duplicated' else 1):
    writer.write(head + data)
    await writer.drain()
  return fault != 'truncated'


async def _stream(writer, pieces: AsyncIterator[bytes], fault: str) -> bool:
  """Sends the pieces as they come, of a truncated stream the first two."""
  head = b'HTTP/1.1 200 x\r\ncontent-type: text/event-stream\r\n\r\n'
  writer.write(head)
  sent = 0
  async with contextlib.aclosing(pieces):
    async for piece in pieces:
      if fault == 'truncated' and sent == 2:
        break
      writer.write(piece)
      await writer.drain()
      sent += 1
  return False
