"""An ASGI application on a free port of this machine, in a thread."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import uvicorn

_PATIENCE = 30.0  # seconds until it answers


@contextlib.contextmanager
def served(app: Any) -> Iterator[str]:
  """Serves the application; gives its address, 'http://127.0.0.1:PORT'.

  Nothing but this machine can reach it.

  Raises:
    RuntimeError: it does not start.
  """
  config = uvicorn.Config(
    app,
    log_level='error',
    access_log=False,
    lifespan='off',
    ws='none',
    timeout_graceful_shutdown=1,
  )
  server = uvicorn.Server(config)
  with socket.socket() as listening:
    listening.bind(('127.0.0.1', 0))
    port = listening.getsockname()[1]
    thread = threading.Thread(
      target=server.run, args=([listening],), name='proxy', daemon=True
    )
    thread.start()
    try:
      _await_start(server, thread)
      yield f'http://127.0.0.1:{port}'
    finally:
      server.should_exit = True
      thread.join()


def _await_start(server: uvicorn.Server, thread: threading.Thread) -> None:
  until = time.monotonic() + _PATIENCE
  while not server.started:
    if not thread.is_alive() or time.monotonic() > until:
      raise RuntimeError('the server on this machine did not start.')
    time.sleep(0.01)
