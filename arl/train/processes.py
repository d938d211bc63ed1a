"""Several processes that train one policy: the door between them.

Each process runs the whole loop. What must not differ is made once and handed
to all: of the tasks of a batch each process rolls out its share with its own
engine, whole groups, and all receive all episodes, so that whatever is decided
from them - what is selected, packed, credited, whether to stop - is decided
alike everywhere, without a word. Episodes are small beside a step. The arrays
of an update are global: each process fills the rows, and reads the parameters,
that its devices hold.

As randomness depends on a task's place in the batch, not on who rolls it out,
several processes train what one would. Process 0 alone writes, but checkpoints,
which all write together; the run's folder must be seen by all.
"""

import contextlib
import functools
import os
import pathlib
import pickle
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import ml_collections
import numpy as np
from jax.experimental import multihost_utils

from arl.rollout import strategies
from arl.train import claim

AUTO = 'auto'
_HEARTBEAT = 60  # seconds after which a process that is silent is given up


class _Failure(str):
  """What went wrong in a process, for the others."""


@contextlib.contextmanager
def joined(coordinator: str, count: int, index: int) -> Iterator[None]:
  """Makes this process one of several, and lets none outlive another.

  Args:
    coordinator: HOST:PORT of process 0, the same for all; 'auto' where JAX
      finds out by itself, on TPU slices and under SLURM or MPI; '' for a
      process alone.
    count: how many processes there are; 0 with 'auto'.
    index: which this is, from 0; -1 with 'auto'.

  Raises:
    ValueError: arguments that contradict each other.
  """
  given = count > 0 and 0 <= index < count
  if bool(coordinator and coordinator != AUTO) != given or (
    not given and (count, index) != (0, -1)
  ):
    raise ValueError(
      f'coordinator {coordinator!r}, processes {count}, process {index}: give'
      " HOST:PORT, how many processes there are and which this is; 'auto' alone"
      ' where JAX finds out; or none of them for one process.'
    )
  if not coordinator:
    yield
    return
  jax.config.update('jax_cpu_collectives_implementation', 'gloo')
  told: dict[str, Any] = {}
  if given:
    told = {'coordinator_address': coordinator, 'num_processes': count}
    # Under SLURM JAX would else take one of the devices that are here.
    told |= {'process_id': index, 'cluster_detection_method': 'deactivate'}
  jax.distributed.initialize(heartbeat_timeout_seconds=_HEARTBEAT, **told)
  try:
    yield
  except BaseException:
    # Leaving by the front door would wait for the others, who wait for this.
    traceback.print_exc()
    print(
      f'process {jax.process_index()} of {jax.process_count()} ends here. If'
      ' the error speaks of a connection, another process ended before; see'
      ' what that one says.',
      file=sys.stderr,
      flush=True,
    )
    os._exit(1)


def several() -> bool:
  """Whether this process is one of several."""
  return jax.process_count() > 1


def is_first() -> bool:
  """Whether this is the process that writes."""
  return jax.process_index() == 0


def share(count: int) -> slice:
  """Which of so many things in order are this process's: neighbors."""
  at, of = jax.process_index(), jax.process_count()
  return slice(count * at // of, count * (at + 1) // of)


def everybody(value: Any) -> list[Any]:
  """What each process gives, in their order; all must call it."""
  if not several():
    return [value]
  mine = np.frombuffer(pickle.dumps(value), np.uint8)
  lengths = multihost_utils.process_allgather(np.int32(len(mine)))
  room = np.zeros(lengths.max(), np.uint8)
  room[: len(mine)] = mine
  rooms = multihost_utils.process_allgather(room)
  pairs = zip(rooms, lengths, strict=True)
  return [pickle.loads(each[:n].tobytes()) for each, n in pairs]


def anybody(asked: bool) -> bool:
  """Whether it is true of any process."""
  return any(everybody(asked))


def of_first(function: Callable) -> Callable:
  """The function, called in the first process; all get what it gave."""

  @functools.wraps(function)
  def run(*arguments, **named):
    if not several():
      return function(*arguments, **named)
    call = functools.partial(function, *arguments, **named)
    return _agreed(call if is_first() else lambda: None)[0]

  return run


def shared(strategy: strategies.Strategy) -> strategies.Strategy:
  """The strategy, each process rolling out its share of the tasks.

  Where it looks at several tasks together, its attribute `together`, the first
  process rolls out all.
  """
  if getattr(strategy, 'together', False):
    return of_first(strategy)

  @functools.wraps(strategy)
  def run(engine, env, chat, tasks, plan, **knobs):
    if not several():
      return strategy(engine, env, chat, tasks, plan, **knobs)
    mine = share(len(tasks))
    own = plan._replace(first=plan.first + mine.start)

    def roll_out():
      if mine.start == mine.stop:
        return []
      return strategy(engine, env, chat, tasks[mine], own, **knobs)

    return [one for part in _agreed(roll_out) for one in part]

  return run


def _agreed(function: Callable[[], Any]) -> list[Any]:
  """What the function gives in each process; raises in all if it does in one.

  Raises:
    RuntimeError: what went wrong in another process.
  """
  try:
    made = function()
  except Exception as error:
    everybody(_Failure(f'{type(error).__name__}: {error}'))
    raise
  answers = everybody(made)
  for index, answer in enumerate(answers):
    if isinstance(answer, _Failure):
      raise RuntimeError(f'process {index} failed: {answer}')
  return answers


def here(tree: Any) -> Any:
  """Arrays that this process can read whole; all must call it.

  Those that lie on devices of several processes come to its memory one after
  the other; others are given back as they are.
  """

  def read(x):
    if not isinstance(x, jax.Array) or x.is_fully_addressable:
      return x
    return multihost_utils.process_allgather(x, tiled=True)

  return jax.tree.map(read, tree)


@contextlib.contextmanager
def desk(folder: pathlib.Path) -> Iterator[pathlib.Path]:
  """Where this process writes: the first in the run's folder.

  It is claimed for this run. What the others would write goes to a folder that
  is deleted, and what they would print nowhere.

  Raises:
    ValueError: another run writes there, or this one cannot.
  """
  if is_first():
    with claim.held(folder):
      yield folder
    return
  with (
    tempfile.TemporaryDirectory() as scratch,
    open(os.devnull, 'w', encoding='utf-8') as nowhere,
    contextlib.redirect_stdout(nowhere),
  ):
    yield pathlib.Path(scratch)


def check(config: ml_collections.ConfigDict) -> None:
  """Refuses what several processes cannot do alike.

  Raises:
    ValueError: naming the setting, with the fix.
  """
  if not several():
    return
  for key, value in (
    ('rollout.budget', config.rollout.budget),
    ('rollout.ahead', config.rollout.ahead),
  ):
    if value:
      raise ValueError(
        f'config.{key} is {value}, but what several processes have finished by'
        ' a certain time differs; set it to 0, or train in one process.'
      )
  urls = [url for url in config.engine.urls.split(',') if url]
  if urls and len(urls) < jax.process_count():
    raise ValueError(
      f'config.engine.urls names {len(urls)} servers for'
      f' {jax.process_count()} processes; each needs one of its own.'
    )


def servers(urls: str) -> list[str]:
  """The servers that are this process's, of those that a config names."""
  every: Sequence[str] = urls.split(',')
  return list(every[share(len(every))])


def own(folder: str) -> str:
  """A folder of this process's own, in one that all see."""
  return f'{folder}/{jax.process_index()}' if several() else folder
