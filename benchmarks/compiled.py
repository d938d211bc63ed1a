"""An update of arl, compiled before it is timed."""

from collections.abc import Callable
from typing import Any

from arl.train import state as state_lib
from arl.train import step as step_lib


def step(
  update: step_lib.Step, state: state_lib.TrainState, columns: Any, credits: Any
) -> tuple[Callable, int]:
  """The update as (state, columns, credits) -> (state, metrics); its memory.

  That is what both of its programs need at most, in bytes, beside the state and
  the columns: the gradient, and what the compiler calls temporary.
  """
  given = state.params, columns, credits, {}
  traced = update.gradient.trace(*given)
  first = traced.lower().compile()
  second = update.apply.lower(state, columns, traced.out_info).compile()
  of_first, of_second = first.memory_analysis(), second.memory_analysis()
  new = of_second.output_size_in_bytes - of_second.alias_size_in_bytes
  beside = max(of_first.temp_size_in_bytes, of_second.temp_size_in_bytes + new)
  run = step_lib.Step(first, second)
  return run, of_first.output_size_in_bytes + beside
