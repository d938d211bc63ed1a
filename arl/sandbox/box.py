"""One started sandbox, waiting at its gate for the only program it will run."""

import contextlib
import os
import selectors
import time
from collections.abc import Iterator, Mapping
from typing import IO

from arl.sandbox import base, files, isolation, launch

_TICK = 0.02  # seconds between two looks at what is used
_CHUNK = 1 << 16


class Box:
  """A sandbox at its gate.

  Args:
    program: argv, env and mounts are those of this sandbox.
    limits: what the program may use.
    how: what keeps it in.

  Raises:
    base.SandboxFailure: it did not start.
    ValueError: the program cannot be asked for, or a limit is none.
  """

  def __init__(
    self,
    program: base.Program,
    limits: base.Limits,
    how: isolation.Isolation,
  ):
    base.check(program, limits)
    self.limits, self._how, self._opened = limits, how, False
    try:
      with contextlib.ExitStack() as stack:
        self._meter = isolation.meter(how, limits)
        stack.callback(self._meter.close)
        if how.bwrap:
          self._started = launch.isolated(program, limits, how, stack)
        else:
          self._started = launch.bare(program, limits, stack)
        self._meter.enter(self._started.first)
        self._left = stack.pop_all()
    except OSError as error:
      raise base.SandboxFailure(f'a sandbox did not start: {error}') from error
    self.roots = self._started.roots
    self._process = self._started.process

  def put(self, given: Mapping[str, bytes]) -> None:
    """Writes files below the work directory.

    Raises:
      ValueError: a name leaves it, or the files do not fit.
    """
    root, user = self.roots[base.WORK], self._started.user
    with _fitting():
      for name, data in given.items():
        files.write(root, name, data, user)

  def restore(self, place: str, tree: files.Tree) -> None:
    """Fills an empty folder with a tree.

    Raises:
      ValueError: the files do not fit.
    """
    with _fitting():
      files.put(self.roots[place], tree, self._started.user)

  def open(self) -> None:
    """Lets the program start, and so wait for its stdin."""
    launch.streams(self._process)[0].write(b'\n')
    self._opened = True

  def alive(self) -> bool:
    """Whether it still waits."""
    return self._process.poll() is None

  def run(self, stdin: bytes) -> base.Outcome:
    """Feeds the program, and gives how it went when all processes have ended.

    Wanted files are for the caller to read.

    Raises:
      base.SandboxFailure: the sandbox broke.
    """
    start, most = time.monotonic(), self.limits.output
    texts = {1: bytearray(), 2: bytearray()}
    limit = self._follow(stdin, texts, start)
    code = self._process.poll()
    spent = time.monotonic() - start
    launch.end(self._started, self._how)
    used = self._meter.used()
    limit = limit or (base.MEMORY if used.killed else '')
    if code is not None and code < 0 and not limit:
      raise base.SandboxFailure(f'signal {-code} ended bubblewrap')
    return base.Outcome(
      None if limit else code,
      bytes(texts[1][:most]),
      bytes(texts[2][:most]),
      limit,
      seconds=spent,
      cpu=used.cpu,
      memory=used.memory,
    )

  def _follow(
    self, stdin: bytes, texts: Mapping[int, bytearray], start: float
  ) -> str:
    """Feeds and reads until all has ended or a limit is reached; which one."""
    feed = memoryview(stdin if self._opened else b'\n' + stdin)
    into, out, err = launch.streams(self._process)
    with selectors.DefaultSelector() as selector:
      selector.register(into, selectors.EVENT_WRITE)
      selector.register(out, selectors.EVENT_READ, (out, texts[1]))
      selector.register(err, selectors.EVENT_READ, (err, texts[2]))
      selector.register(self._started.handle, selectors.EVENT_READ)
      reading = 2
      while True:
        ended = self._process.poll() is not None
        for key, _ in selector.select(0 if ended else _TICK):
          if key.fileobj is into:
            feed = _feed(selector, into, feed)
          elif key.data is None:  # the gate has ended, and all behind it
            selector.unregister(key.fileobj)
          elif not _drain(*key.data):
            selector.unregister(key.fileobj)
            reading -= 1
        limit = self._reached(texts, time.monotonic() - start)
        if limit or (ended and not reading):
          return limit

  def _reached(self, texts: Mapping[int, bytearray], seconds: float) -> str:
    """The limit that is reached, or ''."""
    limits, used = self.limits, self._meter.used()
    inodes = 0
    for root in self.roots.values() if self._how.bwrap else ():
      told = os.fstatvfs(root)
      inodes = max(inodes, told.f_files - told.f_ffree)
    checks = {
      base.OUTPUT: max(map(len, texts.values())) > limits.output,
      base.MEMORY: used.killed,
      base.CPU: used.cpu > limits.cpu,
      base.INODES: inodes > limits.inodes,
      base.SECONDS: seconds > limits.seconds,
    }
    return next((name for name, reached in checks.items() if reached), '')

  def close(self) -> None:
    """Ends it, and leaves nothing of it."""
    self._left.close()


@contextlib.contextmanager
def _fitting() -> Iterator[None]:
  try:
    yield
  except OSError as error:
    raise ValueError(f'files do not fit into a sandbox: {error}') from error


def _feed(
  selector: selectors.BaseSelector, into: IO[bytes], feed: memoryview
) -> memoryview:
  """Writes what fits; closes stdin when all is written or nobody reads."""
  try:
    feed = feed[into.write(feed[:_CHUNK]) or 0 :]
  except BrokenPipeError:
    feed = feed[:0]
  if not feed:
    selector.unregister(into)
    into.close()
  return feed


def _drain(stream: IO[bytes], text: bytearray) -> bool:
  """Reads what is there; whether there may be more."""
  data = stream.read(_CHUNK)
  if data:
    text += data
  return data != b''
