"""Kernels bound to columns by name, and what can be read off a kernel.

A kernel's signature is its declaration: parameters without a value name the
columns it reads, `functools.partial` binds hyperparameters.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from arl import names, ranges, types


def on(kernel: types.Kernel, **columns: str) -> types.Kernel:
  """The kernel, reading other columns: on(k3, ref_logp='teacher_logp').

  Raises:
    ValueError: the kernel has no such parameter.
  """
  reads = read_by(kernel)
  for name in columns:
    if name not in reads:
      raise ValueError(
        f'on({kernel_name(kernel)}, {name}=...): the kernel reads no column'
        f' {name!r}{names.suggest(name, reads)}'
      )

  @functools.wraps(kernel, assigned=(), updated=())
  def rebound(**values):
    own = {name: values[columns.get(name, name)] for name in reads}
    return kernel(**own)

  renamed = dict.fromkeys(columns.get(name, name) for name in reads)
  rebound.__name__ = kernel_name(kernel)
  declare(rebound, renamed)
  return rebound


def declare(kernel: Callable, reads: Mapping[str, Any] | list[str]) -> None:
  """Makes `reads` the columns that a function of **columns reads."""
  kernel.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in reads]
  )


def read_by(kernel: types.Kernel) -> tuple[str, ...]:
  """The columns a kernel reads: its parameters without a value."""
  return tuple(
    name
    for name, parameter in inspect.signature(kernel).parameters.items()
    if parameter.default is inspect.Parameter.empty
  )


def layers(kernel: types.Kernel) -> Iterator[Callable]:
  """A kernel, then what it wraps, through `partial` and `on`, outside in."""
  layer: Any = kernel
  while layer is not None:
    yield layer
    is_partial = isinstance(layer, functools.partial)
    layer = layer.func if is_partial else getattr(layer, '__wrapped__', None)


def function_of(kernel: types.Kernel) -> Callable:
  """The plain function under `partial` and `on`."""
  *_, innermost = layers(kernel)
  return innermost


def kernel_name(kernel: types.Kernel) -> str:
  """A kernel's name for error sentences and tables, through partials."""
  while isinstance(kernel, functools.partial):
    kernel = kernel.func
  return getattr(kernel, '__name__', repr(kernel))


def hyperparameters(kernel: types.Kernel) -> dict[str, Any]:
  """What `partial` bound, the outermost value of a name."""
  bound: dict[str, Any] = {}
  for layer in layers(kernel):
    if isinstance(layer, functools.partial):
      bound = {**layer.keywords, **bound}
  return bound


def check_ranges(who: str, kernel: types.Kernel) -> None:
  """Refuses hyperparameters outside the ranges that the kernel declares."""
  ranges.check(
    f'{who}: kernel {kernel_name(kernel)!r}',
    function_of(kernel),
    hyperparameters(kernel),
  )
