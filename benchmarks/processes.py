"""Workers: of one thread each, on one core, or of as many as there are."""

import contextlib
import json
import os
import pathlib
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

_SHOWN = 20  # lines of a log in an error
ROOT = pathlib.Path(__file__).parents[1]
# Memory that was freed is kept, where glibc would give blocks over 32 MiB back
# to the kernel and have them faulted in anew at each call.
_ENVIRONMENT = {
  'CUDA_VISIBLE_DEVICES': '',
  'HF_HUB_OFFLINE': '1',
  'JAX_PLATFORMS': 'cpu',
  'MALLOC_ARENA_MAX': '1',  # arenas of threads hold at most 64 MiB
  'MALLOC_MMAP_THRESHOLD_': str(2**32),
  'MALLOC_TRIM_THRESHOLD_': str(2**32),
}
_ONE_THREAD = {
  'MKL_NUM_THREADS': '1',
  'OMP_NUM_THREADS': '1',
  'OPENBLAS_NUM_THREADS': '1',
  'XLA_FLAGS': '--xla_cpu_multi_thread_eigen=false'
  ' intra_op_parallelism_threads=1',
}


class Worker:
  """A side in a process of its own.

  Attributes:
    versions: of its Python and packages.
  """

  def __init__(self, process: subprocess.Popen, log: pathlib.Path):
    self._process, self._log = process, log
    self.versions: dict[str, str] = self._answer()

  def _answer(self) -> dict[str, Any]:
    assert self._process.stdout is not None
    line = self._process.stdout.readline()
    if not line:
      said = '\n'.join(self._log.read_text().splitlines()[-_SHOWN:])
      raise RuntimeError(
        f'{self._log.stem}: the process ended with {self._process.wait()} after'
        f' saying:\n{said}'
      )
    return json.loads(line)

  def ask(self, **request: Any) -> float:
    """Sends a request of `benchmarks.worker`; gives the seconds it answers."""
    assert self._process.stdin is not None
    self._process.stdin.write(json.dumps(request) + '\n')
    self._process.stdin.flush()
    return self._answer()['seconds']


@contextlib.contextmanager
def start(
  side: str, python: str, core: int | None, folder: pathlib.Path
) -> Iterator[Worker]:
  """Runs a worker until the block ends.

  Args:
    side: a module of `benchmarks.sides`.
    python: the interpreter that has its packages.
    core: the only one that it may use, with one thread; None for all.
    folder: takes a log of what its libraries say.

  Raises:
    RuntimeError: the process ended by itself, here or while it was asked.
  """
  command, environment = [python], {**os.environ, **_ENVIRONMENT}
  if core is not None:
    command = ['taskset', '--cpu-list', str(core), python]
    environment |= _ONE_THREAD
  log = folder / f'{side}.log'
  with log.open('w') as errors:
    process = subprocess.Popen(
      [*command, '-m', 'benchmarks.worker', side],
      cwd=ROOT,
      env=environment,
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=errors,
      text=True,
    )
  try:
    yield Worker(process, log)
  finally:
    process.kill()
    process.communicate()


def seconds_until(
  command: Sequence[str],
  done: Callable[[], bool],
  log: pathlib.Path,
  env: Mapping[str, str],
  limit: float,
) -> float:
  """Runs a command until something is so, then kills it; gives the seconds.

  Args:
    command: in the folder of this project.
    done: whether it is so, asked again and again.
    log: takes what the command says.
    env: its whole environment.
    limit: seconds that it may take.

  Raises:
    RuntimeError: the command ended, or took too long, before it was so.
  """
  began = time.monotonic()
  with log.open('w') as told:
    process = subprocess.Popen(
      command, cwd=ROOT, env=env, stdout=told, stderr=subprocess.STDOUT
    )
  try:
    while not done():
      over = time.monotonic() - began > limit
      if over or process.poll() is not None:
        why = f'ran for {limit} s' if over else f'ended with {process.poll()}'
        said = '\n'.join(log.read_text().splitlines()[-_SHOWN:])
        raise RuntimeError(f'{" ".join(command)} {why}, too early:\n{said}')
      time.sleep(0.02)
    return time.monotonic() - began
  finally:
    process.kill()
    process.wait()
