"""Resolving dotted names, and error sentences that suggest the right one."""

import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable


def _function(name: str) -> str:
  return name.rpartition('.')[2]


def suggest(name: str, known: Iterable[str]) -> str:
  """A tail for an error sentence: "; did you mean 'x'?", or the choices.

  Of dotted names, one that ends like `name` comes before one that looks like
  it: the module is what people forget.
  """
  known = sorted(known)
  alike = [k for k in known if _function(k) == _function(name)]
  cutoff = 0.0 if alike else 0.5
  close = difflib.get_close_matches(name, alike or known, n=1, cutoff=cutoff)
  if close:
    return f'; did you mean {close[0]!r}?'
  return f'; known: {", ".join(known)}'


def _is_missing(error: ModuleNotFoundError, module: str) -> bool:
  """Whether the module itself is missing, rather than something it imports."""
  return error.name is not None and (module + '.').startswith(error.name + '.')


def _import(module: str):
  if not all(part.isidentifier() for part in module.split('.')):
    return None
  try:
    return importlib.import_module(module)
  except ModuleNotFoundError as error:
    if _is_missing(error, module):
      return None
    raise


def _modules(package: str) -> list[str]:
  found = importlib.import_module(package)
  return [m.name for m in pkgutil.iter_modules(found.__path__)]


def _known(home: str) -> list[str]:
  """Every 'module.function' that `home` offers."""
  return [
    f'{name}.{function}'
    for name in _modules(home)
    for function, value in inspect.getmembers(
      importlib.import_module(f'{home}.{name}'), inspect.isfunction
    )
    if value.__module__ == f'{home}.{name}' and not function.startswith('_')
  ]


def check_keywords(
  name: str, function: Callable, keywords: Iterable[str]
) -> None:
  """Refuses keyword arguments that a function does not take.

  Raises:
    TypeError: as Python's own, with the nearest that exists.
  """
  known = inspect.signature(function).parameters
  if any(p.kind is p.VAR_KEYWORD for p in known.values()):
    return
  for key in keywords:
    if key not in known:
      raise TypeError(
        f'{name}() got an unexpected keyword argument {key!r}'
        f'{suggest(key, known)}'
      )


def resolve(name: str, home: str) -> Callable:
  """The function that a dotted name means.

  Args:
    name: 'module.function', first looked for in `home`, then as an absolute
      dotted path, so a lab's own package needs no registration.
    home: the package whose modules may be named without it.

  Returns:
    The function.

  Raises:
    ValueError: no such module or function, with the nearest that exists.
  """
  module_name, _, function = name.rpartition('.')
  module = _import(f'{home}.{module_name}') or _import(module_name)
  if module is None or not callable(getattr(module, function, None)):
    raise ValueError(
      f'{name!r} names no function: write module.function of {home}, or a'
      f' dotted path that can be imported{suggest(name, _known(home))}'
    )
  return getattr(module, function)
