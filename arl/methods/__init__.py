"""Methods: compositions of kernels, made by name."""

from arl import names, types
from arl.methods import compose

Made = compose.Objective | compose.Term | types.Method


def make(name: str, **hyperparameters) -> Made:
  """Makes a method by name: make('grpo.dapo', high=0.3).

  Args:
    name: 'module.function' in arl.methods, or any importable dotted path.
    **hyperparameters: the function's keyword arguments.

  Raises:
    ValueError: there is no such method.
    TypeError: it has no such hyperparameter.
  """
  return names.resolve(name, 'arl.methods')(**hyperparameters)
