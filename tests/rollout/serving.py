"""A server of a tiny model on loopback, and a client that speaks JSON to it."""

import contextlib
import json
import pathlib
import threading
import time
from collections.abc import Iterator

import httpx
import uvicorn

from arl.rollout import server
from launch import serve


@contextlib.contextmanager
def running(folder: pathlib.Path, **settings) -> Iterator[httpx.Client]:
  """A client of a server in a thread; its state is `client.serving`."""
  given = {'slots': 8, 'context': 32, 'seed': 7, 'max_queue': 64}
  state = serve.serving(str(folder), **given | settings)
  config = uvicorn.Config(
    server.make(state), port=0, log_level='error', timeout_graceful_shutdown=1
  )
  made = uvicorn.Server(config)
  thread = threading.Thread(target=made.run)
  thread.start()
  while not made.started:
    time.sleep(0.01)
  port = made.servers[0].sockets[0].getsockname()[1]
  with httpx.Client(base_url=f'http://127.0.0.1:{port}', timeout=60) as client:
    client.serving = state
    yield client
  made.should_exit = True
  thread.join()
  state.engine.close()


def events(response: httpx.Response) -> list:
  """The pieces of a stream, whose end is checked."""
  lines = [line for line in response.text.split('\n\n') if line]
  assert lines.pop() == 'data: [DONE]'
  return [json.loads(line.removeprefix('data: ')) for line in lines]


def until(condition) -> None:
  """Waits for something to come true."""
  deadline = time.monotonic() + 60
  while not condition():
    assert time.monotonic() < deadline
    time.sleep(0.005)
