"""Sandboxes that were started before they are needed.

Each is used once. What waits is a program that reads its work from stdin, as
those of `programs` do: its command is the same for all, and trusted.
"""

import collections
import threading

from arl.sandbox import base, box, runs

_TRIES = 3  # of starting one, before nothing is expected of this machine


class Pool:
  """Keeps some sandboxes of one command ready.

  Args:
    program: argv, env and mounts of all of them.
    limits: of each run.
    ready: how many wait.
    unsafe_without_isolation: run them even if nothing can isolate them.
  """

  def __init__(
    self,
    program: base.Program,
    limits: base.Limits = base.DEFAULT,
    ready: int = 2,
    unsafe_without_isolation: bool = False,
  ):
    if ready < 1:
      raise ValueError(f'a pool keeps 1 sandbox or more ready, not {ready}')
    self._make = lambda: runs.start(program, limits, unsafe_without_isolation)
    self._argv, self._most = tuple(program.argv), ready
    self._waiting: collections.deque[box.Box] = collections.deque()
    self._change = threading.Condition()
    self._error: Exception | None = None
    self._closed = False
    # A sandbox dies with the thread that started it, so one thread starts all.
    self._filler = threading.Thread(target=self._fill, daemon=True)
    self._filler.start()

  def __enter__(self) -> 'Pool':
    return self

  def __exit__(self, *error) -> None:
    self.close()

  def _fill(self) -> None:
    failures = 0
    while True:
      with self._change:
        self._change.wait_for(
          lambda: self._closed or len(self._waiting) < self._most
        )
        if self._closed:
          return
      try:
        made = self._make()
        made.open()
      except Exception as error:  # raised where a sandbox is asked for
        failures += 1
        if failures < _TRIES:
          continue
        with self._change:
          self._error = error
          self._change.notify_all()
          return
      failures = 0
      with self._change:
        self._waiting.append(made)
        self._change.notify_all()

  def start(self, program: base.Program) -> box.Box:
    """A sandbox that waits for a program's stdin; a `runs.Start`.

    Raises:
      base.SandboxFailure: none could be started, or the pool is closed.
      ValueError: the program's command is not the pool's.
    """
    if tuple(program.argv) != self._argv:
      raise ValueError(f'this pool runs {self._argv}, not {program.argv}')
    while True:
      with self._change:
        self._change.wait_for(
          lambda: self._waiting or self._error or self._closed
        )
        if self._closed:
          raise base.SandboxFailure('the pool is closed')
        if not self._waiting:
          raise base.SandboxFailure(f'no sandbox: {self._error}')
        made = self._waiting.popleft()
        self._change.notify_all()
      if made.alive():
        return made
      made.close()

  def run(self, program: base.Program) -> base.Outcome:
    """Runs a program in one of them."""
    return runs.finish(self.start(program), program)

  def full(self) -> None:
    """Waits until as many are ready as are kept.

    Raises:
      base.SandboxFailure: they could not be started.
    """
    with self._change:
      self._change.wait_for(
        lambda: len(self._waiting) == self._most or self._error
      )
      if self._error:
        raise base.SandboxFailure(f'no sandbox: {self._error}')

  def close(self) -> None:
    """Ends all that wait; what runs goes on to its end."""
    with self._change:
      self._closed = True
      self._change.notify_all()
    self._filler.join()
    while self._waiting:
      self._waiting.popleft().close()
