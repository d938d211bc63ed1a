"""Every number of every recipe and kernel has a range, and is held to it.

A number outside is refused with the name of the recipe or the kernel, that of
the argument, and the range.
"""

import functools
import importlib
import inspect
import math
import numbers
import pkgutil
import re
import typing
from collections.abc import Callable, Iterator
from types import ModuleType

import axes
import pytest

from arl import columns as columns_lib
from arl import kernels as kernels_lib
from arl import methods, ranges
from arl.kernels import aggregations, returns
from arl.methods import binding, compose, terms
from launch import table

# Arguments that are no number: objectives, kernels, steps, names of columns.
NO_NUMBERS = {
  'aggregate',
  'base',
  'before',
  'credit',
  'kernel',
  'outcomes',
  'target',
  'to',
}
STEPS = tuple(columns_lib.filled_by(columns_lib.STEP) - {'loss'})


def _functions(package: ModuleType) -> Iterator[tuple[str, Callable]]:
  """(name, function) of what the modules of a package define."""
  for found in pkgutil.iter_modules(package.__path__):
    module = importlib.import_module(f'{package.__name__}.{found.name}')
    for name, function in inspect.getmembers(module, inspect.isfunction):
      if function.__module__ == module.__name__ and name[0] != '_':
        yield f'{found.name}.{name}', function


def _numbers(function: Callable, kinds) -> list[str]:
  """The parameters of some kinds that take a number."""
  return [
    name
    for name, parameter in inspect.signature(function).parameters.items()
    if parameter.kind in kinds and name not in NO_NUMBERS
  ]


KEYWORDS = (inspect.Parameter.KEYWORD_ONLY,)
KERNELS = {
  name: function
  for name, function in _functions(kernels_lib)
  if _numbers(function, KEYWORDS) and 'carried' not in binding.read_by(function)
}
RECIPES = dict(table.recipes())
TERMS = {
  f'terms.{name}': function
  for name, function in inspect.getmembers(terms, inspect.isfunction)
  if function.__module__ == terms.__name__
}
PLACES = [
  *((name, n) for name, f in KERNELS.items() for n in _numbers(f, KEYWORDS)),
  *(
    (name, n)
    for name, f in (RECIPES | TERMS).items()
    for n in _numbers(f, tuple(inspect._ParameterKind))
  ),
]
FUNCTIONS = KERNELS | RECIPES | TERMS


@functools.cache
def _range(function: Callable, name: str) -> tuple[type, ranges.Range] | None:
  hint = typing.get_type_hints(function, include_extras=True).get(name)
  for extra in getattr(hint, '__metadata__', ()):
    if isinstance(extra, ranges.Range):
      return typing.get_args(hint)[0], extra
  return None


def _outside(kind: type, wanted: ranges.Range) -> list[float]:
  """The nearest numbers outside a range, and what is never in one."""
  low, high = (float(end) for end in wanted.text[1:-1].split(','))
  step = 1 if kind is int else 1e-9
  found = [math.nan, math.inf, -math.inf] if kind is float else []
  if math.isfinite(low):
    found.append(low - step if wanted.text[0] == '[' else low)
  if math.isfinite(high):
    found.append(high + step if wanted.text[-1] == ']' else high)
  return [kind(x) for x in found]


def _at_the_ends(kind: type, wanted: ranges.Range) -> list[float]:
  """The ends of a range that lie in it, or numbers next to them."""
  low, high = (float(end) for end in wanted.text[1:-1].split(','))
  step = 1 if kind is int else 1e-3
  inner = [
    low if wanted.text[0] == '[' else low + step,
    high if wanted.text[-1] == ']' else high - step,
  ]
  return [kind(x) for x in inner if math.isfinite(x)]


@pytest.mark.parametrize('name, argument', PLACES)
def test_every_number_has_a_range(name, argument):
  found = _range(FUNCTIONS[name], argument)
  assert found is not None
  default = inspect.signature(FUNCTIONS[name]).parameters[argument].default
  if default is not inspect.Parameter.empty:
    assert isinstance(default, numbers.Real) and found[1].holds(default)


OF_RECIPES = [(n, a) for n, a in PLACES if n in RECIPES]
OF_KERNELS = [(n, a) for n, a in PLACES if n in KERNELS]


@pytest.mark.parametrize('name, argument', OF_RECIPES)
def test_a_recipe_refuses_a_number_outside(name, argument):
  kind, wanted = _range(RECIPES[name], argument)
  for bad in _outside(kind, wanted):
    with pytest.raises(ValueError) as caught:
      methods.make(name, **{argument: bad})
    message = f'{name}: {argument} is {bad}; it must be in {wanted.text}.'
    assert str(caught.value) == message
  for bad in (True, '1', None, *([0.5] if kind is int else [])):
    with pytest.raises(TypeError, match=f'^{name}: {argument} is '):
      methods.make(name, **{argument: bad})


@pytest.mark.parametrize('name, argument', OF_RECIPES)
def test_a_recipe_builds_at_the_ends_of_its_ranges(name, argument):
  kind, wanted = _range(RECIPES[name], argument)
  for number in _at_the_ends(kind, wanted):
    compose.method(methods.make(name, **{argument: number}))


def _parts(made) -> list:
  """The kernels of a method with their numbers, and the factors of terms."""
  found: list = []
  for term in compose.terms_of(made):
    found.append((term.name, term.coef))
    last = ('weights', term.aggregate)
    for step, kernel in (*term.credit, *term.loss, *term.monitors, last):
      numbers = binding.hyperparameters(kernel)
      found.append((step, binding.kernel_name(kernel), numbers))
  return found


@pytest.mark.parametrize('name, argument', OF_RECIPES)
def test_every_number_of_a_recipe_reaches_a_kernel_or_a_factor(name, argument):
  kind, wanted = _range(RECIPES[name], argument)
  default = inspect.signature(RECIPES[name]).parameters[argument].default
  (other, *_) = (
    number
    for number in (default * 2, default / 2, default + 1, default + 0.5)
    if number != default and wanted.holds(number)
  )
  parts = _parts(methods.make(name))
  assert _parts(methods.make(name)) == parts
  assert _parts(methods.make(name, **{argument: kind(other)})) != parts


def _bound(function, **numbers):
  """A term that holds a kernel with numbers, after steps of any name."""
  others = {n: x for n, x in axes.NUMBERS.items() if n not in numbers}
  needed = set(inspect.signature(function).parameters)
  kernel = functools.partial(
    function,
    **{n: x for n, x in others.items() if n in needed},
    **numbers,
  )
  missing = {
    name: 'rewards'
    for name in binding.read_by(kernel)
    if name not in columns_lib.COLUMNS
  }
  anything = tuple((step, returns.reward_to_go) for step in STEPS)
  return compose.Term(
    'mine',
    (('made', binding.on(kernel, **missing)), ('loss', lambda logp: logp)),
    aggregations.token_mean,
    credit=anything,
  )


@pytest.mark.parametrize('name, argument', OF_KERNELS)
def test_a_kernel_refuses_a_number_outside(name, argument):
  function = KERNELS[name]
  kind, wanted = _range(function, argument)
  compose.method(_bound(function))
  for bad in _outside(kind, wanted):
    message = (
      f"term 'mine': kernel '{function.__name__}': {argument} is {bad}; it must"
      f' be in {wanted.text}.'
    )
    with pytest.raises(ValueError, match=f'^{re.escape(message)}$'):
      compose.method(_bound(function, **{argument: bad}))
