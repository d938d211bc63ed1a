"""Methods: compositions of kernels, made by name."""

from collections.abc import Mapping
from typing import Any

from arl import names, ranges, types
from arl.methods import compose

Made = compose.Objective | compose.Term | types.Method
Base = compose.Objective | str | Mapping[str, Any]


def make(name: str, **hyperparameters) -> Made:
  """Makes a method by name: make('offpolicy.tis', high=3.0).

  Args:
    name: 'module.function' in arl.methods, or any importable dotted path.
    **hyperparameters: the function's keyword arguments.

  Raises:
    ValueError: there is no such method, or a number is out of the range that
      the function declares.
    TypeError: it has no such hyperparameter.
  """
  recipe = names.resolve(name, 'arl.methods')
  names.check_keywords(name, recipe, hyperparameters)
  ranges.check(name, recipe, hyperparameters)
  return recipe(**hyperparameters)


def objective(base: Base) -> compose.Objective:
  """An objective to change: one, its name, or {'name': ..., hyperparameters}.

  Raises:
    ValueError, TypeError: as `make`, or it makes no objective.
  """
  made: Any = base
  if isinstance(base, str):
    made = make(base)
  elif isinstance(base, Mapping):
    made = make(**base)
  if not isinstance(made, compose.Objective):
    raise TypeError(
      f'base is {base!r}; it must be an Objective, or the name of a recipe that'
      ' makes one.'
    )
  return made
