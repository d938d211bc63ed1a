"""Packages that an environment needs and arl does not."""

import importlib
from typing import Any


def load(module: str, install: str) -> Any:
  """The module, imported when it is first needed.

  Args:
    module: a dotted name.
    install: the command that installs it.

  Raises:
    ImportError: it is not there, or lacks something itself; says the command.
  """
  try:
    return importlib.import_module(module)
  except ImportError as error:
    raise ImportError(
      f'this environment needs {module}, which cannot be imported ({error}); '
      f'run: {install}'
    ) from error
