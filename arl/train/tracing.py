"""Traces of a few steps, for XProf or Perfetto."""

import contextlib
import pathlib
from collections.abc import Callable, Iterator

import jax

FOLDER = 'profile'


@contextlib.contextmanager
def track(
  folder: pathlib.Path, start: int, count: int
) -> Iterator[Callable[[int], None]]:
  """Gives what a run calls as each step begins: it traces some of them.

  The first step compiles, so the trace is of the `count` steps after it. It is
  written to folder/profile as the step after them begins, or the run ends.

  Args:
    folder: of the run.
    start: the first step, from 0.
    count: steps to trace; 0 for none.

  Raises:
    ValueError: a negative count.
  """
  if count < 0:
    raise ValueError(f'profile: {count} steps to trace; give 0 or more.')
  first, last = start + 1, start + count
  with contextlib.ExitStack() as trace, contextlib.ExitStack() as within:

    def begin(step: int) -> None:
      within.close()
      if step == first and count:
        trace.enter_context(jax.profiler.trace(folder / FOLDER))
      if step == last + 1:
        trace.close()
      if first <= step <= last:
        named = jax.profiler.StepTraceAnnotation('step', step_num=step)
        within.enter_context(named)

    yield begin
