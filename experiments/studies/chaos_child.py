"""launch.train that tells where it is, and is killed where a plan says so.

  python -m experiments.studies.chaos_child PLAN FLAG...

PLAN is a `chaos_plan.Plan` as JSON; the flags are those of launch.train, which
does the rest. A kill is a SIGKILL to this very process: nothing is caught,
closed or flushed.
"""

import contextlib
import functools
import hashlib
import json
import os
import random
import runpy
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from arl.rollout import local, sglang
from arl.train import checkpoint, clock, engines, evaluation, gather
from experiments.studies import chaos_plan

_HOURS = 12  # that the clock may be off, to either side


class _Teller:
  """Shows what is under way, and kills where the plan says so."""

  def __init__(self, plan: chaos_plan.Plan):
    self._plan, self._page = plan, chaos_plan.open_page(plan.page)
    self._lock, self._phases = threading.Lock(), list[str]()
    self._begun, self._set = 0, False
    self._show()

  @contextlib.contextmanager
  def during(self, phase: str) -> Iterator[None]:
    """Shows a phase, in which the run may end."""
    with self._lock:
      self._phases.append(phase)
      self._show()
    self._begin(phase)
    try:
      yield
    finally:
      with self._lock:
        self._phases.remove(phase)
        self._show()

  def wrap(self, owner: Any, name: str, phase: str) -> None:
    """Shows the phase while a function of a module or class runs."""
    inner = getattr(owner, name)

    @functools.wraps(inner)
    def call(*args, **keywords):
      with self.during(phase):
        return inner(*args, **keywords)

    setattr(owner, name, call)

  def _begin(self, phase: str) -> None:
    plan = self._plan
    self._begun += phase == chaos_plan.ROLLOUT
    if phase != plan.phase or self._begun < plan.after or self._set:
      return
    self._set = True
    if plan.delay > 0:
      threading.Timer(plan.delay, _kill).start()
    else:
      _kill()

  def _show(self) -> None:
    told = ','.join(self._phases) or chaos_plan.BETWEEN
    self._page[:] = told.encode().ljust(chaos_plan.ROOM, b'\0')


def _kill() -> None:
  os.kill(os.getpid(), signal.SIGKILL)


def _tell_gathering(teller: _Teller, played: str) -> None:
  """Shows rollouts, and notes what each step gathered."""
  make = gather.make

  def telling(*args):
    whole = make(*args)

    def collect(kept, step, version, knobs):
      with teller.during(chaos_plan.ROLLOUT):
        got, kept = whole.collect(kept, step, version, knobs)
      _note(played, step, got)
      return got, kept

    return whole._replace(collect=collect)

  gather.make = telling


def _note(path: str, step: int, got: gather.Gathered) -> None:
  tokens, logp = hashlib.sha256(), hashlib.sha256()
  for group in got.groups:
    for one in group.episodes:
      for column in (one.tokens, one.mask, one.rewards):
        tokens.update(column.tobytes())
      logp.update(one.logp.tobytes())
  told = {
    'step': step,
    'tasks': [one.task.id for one in got.episodes],
    'trained': [group.task.id for group in got.groups],
    'tokens': tokens.hexdigest(),
    'logp': logp.hexdigest(),
  }
  with open(path, 'a', encoding='utf-8') as file:
    file.write(json.dumps(told) + '\n')


def _tell_parts(teller: _Teller) -> None:
  """Shows scoring and updates, which a run's own clock counts."""
  during = clock.Clock.during

  @contextlib.contextmanager
  def telling(self, part):
    with contextlib.ExitStack() as stack:
      stack.enter_context(during(self, part))
      if part in (clock.SCORING, clock.UPDATE):
        stack.enter_context(teller.during(part))
      yield

  clock.Clock.during = telling  # type: ignore[method-assign]


def _jump(seed: int) -> None:
  """Lets the time of day be off by hours, otherwise at each look."""
  rng, now, now_ns = random.Random(seed), time.time, time.time_ns
  off = lambda: rng.uniform(-_HOURS, _HOURS) * 3600
  time.time = lambda: now() + off()
  time.time_ns = lambda: now_ns() + int(off() * 1e9)


def install(plan: chaos_plan.Plan) -> None:
  """Lets the parts of a run tell, and puts what the plan says in their way."""
  teller = _Teller(plan)
  _tell_gathering(teller, plan.played)
  _tell_parts(teller)
  teller.wrap(checkpoint.Checkpoints, 'save', chaos_plan.SAVE)
  teller.wrap(evaluation, 'evaluate', chaos_plan.EVALUATION)
  for engine in (local.LocalEngine, engines.InFlight, sglang.SglangEngine):
    teller.wrap(engine, 'set_params', chaos_plan.SYNC)
  if plan.patience:
    waiting = functools.partial(sglang.connect, patience=plan.patience)
    sglang.connect = waiting
  if plan.clock:
    _jump(plan.clock)


if __name__ == '__main__':
  install(chaos_plan.Plan(**json.loads(sys.argv.pop(1))))
  runpy.run_module('launch.train', run_name='__main__', alter_sys=True)
