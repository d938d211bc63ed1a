"""Writes the table of methods into README.md: python -m launch.table.

A row for each function of arl.methods that can be called without arguments,
taken apart into its axes; with --check it only says whether the table is up to
date, and exits with status 1 if not.
"""

import functools
import importlib
import inspect
import pathlib
import pkgutil
from collections.abc import Callable, Iterator

from absl import app, flags

from arl import methods, types
from arl.methods import binding, compose

_CHECK = flags.DEFINE_bool('check', False, 'Write nothing; 1 if out of date.')
_README = flags.DEFINE_string(
  'readme', str(pathlib.Path(__file__).parents[1] / 'README.md'), 'The file.'
)

BEGIN, END = '<!-- methods:begin -->', '<!-- methods:end -->'
HEADER = (
  'method', 'advantage', 'ratio', 'surrogate', 'aggregation', 'further terms',
  'needs',
)  # fmt: skip
_NOTHING = '–'
_LAMBDA = '`<lambda>`'


def recipes() -> Iterator[tuple[str, Callable]]:
  """(name, function) of what arl.methods makes without arguments."""
  for module in sorted(m.name for m in pkgutil.iter_modules(methods.__path__)):
    home = importlib.import_module(f'arl.methods.{module}')
    for name, value in vars(home).items():
      if _is_recipe(value, home.__name__):
        yield f'{module}.{name}', value


def _is_recipe(value: object, home: str) -> bool:
  if not inspect.isfunction(value) or value.__module__ != home:
    return False
  if value.__name__.startswith('_') or home == compose.__name__:
    return False
  parameters = inspect.signature(value).parameters.values()
  return all(p.default is not inspect.Parameter.empty for p in parameters)


def describe(kernel: types.Kernel) -> str:
  """A kernel by name, with what is bound: 'clip(low=0.2, high=0.28)'.

  A column that it reads in place of its own is shown as 'k3(ref_logp: other)'.
  """
  name, bound = binding.kernel_name(kernel), ', '.join(_bound(kernel))
  return f'`{name}({bound})`' if bound else f'`{name}`'


def _bound(kernel: types.Kernel) -> list[str]:
  if isinstance(kernel, functools.partial):
    values = [f'{n}={_value(v)}' for n, v in kernel.keywords.items()]
    return [*_bound(kernel.func), *values]
  inner = getattr(kernel, '__wrapped__', None)
  if inner is None:
    return []
  columns = zip(binding.read_by(inner), binding.read_by(kernel))
  return [
    *_bound(inner),
    *(f'{own}: {other}' for own, other in columns if own != other),
  ]


def _value(value: object) -> str:
  if callable(value):
    return binding.kernel_name(value)
  return f'{value:g}' if isinstance(value, int | float) else repr(value)


def _chain(steps: types.Steps) -> str:
  return ' → '.join(describe(kernel) for _, kernel in steps)


def _summand(term: compose.Term, aggregate: types.Kernel) -> str:
  """A term as '0.04 kl (`k3`)', and its aggregation where that is its own."""
  name = term.name if term.coef == 1 else f'{term.coef:g} {term.name}'
  shown = [describe(kernel) for _, kernel in term.loss]
  if term.aggregate is not aggregate:
    shown.append(describe(term.aggregate))
  inside = ', '.join(x for x in shown if x != _LAMBDA)
  return f'{name} ({inside})' if inside else name


def row(name: str, made: methods.Made) -> tuple[str, ...]:
  """The cells of a method, in the order of HEADER.

  A method that was not composed shows nothing but what it needs.
  """
  if isinstance(made, types.Method):
    return (name, *[_NOTHING] * 5, _columns(made.needs))
  needs = _columns(compose.method(made).needs)
  if isinstance(made, compose.Term):
    axes = [_NOTHING, _NOTHING, _NOTHING, describe(made.aggregate)]
    terms = _summand(made, made.aggregate)
  else:
    axes = _axes(made)
    terms = '; '.join(_summand(t, made.aggregate) for t in made.terms)
  return (name, *axes, terms or _NOTHING, needs)


def _axes(made: compose.Objective) -> list[str]:
  factors = (*made.corrections, made.surrogate)
  has_ratio = any('log_ratio' in binding.read_by(k) for k in factors)
  return [
    _chain(compose.steps(made.advantage)),
    describe(made.ratio) if has_ratio else _NOTHING,
    ' × '.join(map(describe, factors)),
    describe(made.aggregate),
  ]


def _columns(needs: frozenset[str]) -> str:
  return ', '.join(f'`{name}`' for name in sorted(needs)) or _NOTHING


def table() -> str:
  """The whole table in Markdown."""
  rows = [row(f'`{name}`', recipe()) for name, recipe in recipes()]
  lines = [HEADER, ['---'] * len(HEADER), *rows]
  return '\n'.join(f'| {" | ".join(cells)} |' for cells in lines)


def insert(text: str, made: str) -> str:
  """The text with `made` between its markers.

  Raises:
    ValueError: a marker is missing, or there are several.
  """
  if text.count(BEGIN) != 1 or text.count(END) != 1:
    raise ValueError(
      f'the README must hold each of {BEGIN} and {END} once; write them where'
      ' the table of methods goes.'
    )
  before, rest = text.split(BEGIN)
  after = rest.split(END)[1]
  return f'{before}{BEGIN}\n\n{made}\n\n{END}{after}'


def main(argv: list[str]) -> int:
  if len(argv) > 1:
    raise app.UsageError(f'unexpected arguments: {" ".join(argv[1:])}')
  path = pathlib.Path(_README.value)
  old = path.read_text(encoding='utf-8')
  new = insert(old, table())
  if old == new:
    return 0
  if _CHECK.value:
    print(
      f'{path}: the table of methods is out of date: python -m launch.table'
    )
    return 1
  path.write_text(new, encoding='utf-8')
  print(f'wrote the table of methods into {path}')
  return 0


if __name__ == '__main__':
  app.run(main)
