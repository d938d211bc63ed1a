"""Ctrl-C as a request: the loop finishes its step, saves and says so."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def requested() -> Iterator[Callable[[], bool]]:
  """Gives a function that tells whether SIGINT or SIGTERM has come.

  A second signal raises KeyboardInterrupt at once. Outside the main thread,
  where Python cannot take signals, it always tells False.
  """
  asked = False

  def ask(signum, frame):
    nonlocal asked
    if asked:
      raise KeyboardInterrupt
    asked = True

  if threading.current_thread() is not threading.main_thread():
    yield lambda: False
    return
  kinds = (signal.SIGINT, signal.SIGTERM)
  before = [signal.signal(kind, ask) for kind in kinds]
  try:
    yield lambda: asked
  finally:
    for kind, handler in zip(kinds, before):
      signal.signal(kind, handler)
