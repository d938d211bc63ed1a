"""Writes the tables of methods: python -m launch.table.

A row for each function of arl.methods that can be called without arguments: in
docs/recipes.md what it is made of, where it comes from and what it is compared
with, in docs/methods.md every axis with its numbers. README.md has a row for
each of their modules. With --check it only says whether all are up to date, and
exits with status 1 if not.
"""

import functools
import importlib
import inspect
import itertools
import pathlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from arl import methods, types
from arl.methods import binding, compose
from experiments import recipes as configs
from launch import evidence, generated, papers

BEGIN, END = '<!-- methods:begin -->', '<!-- methods:end -->'
AXES = ('advantage', 'ratio', 'surrogate', 'aggregation', 'further terms')
HEADER = ('method', *AXES, 'needs', 'compared with')
SHORT_HEADER = (
  'method', 'made of', 'source', 'status', 'compared with', 'config',
)  # fmt: skip
FAMILY_HEADER = 'family', 'what it is about', 'recipes'
RECIPES = """# Recipes

Made by `python -m launch.table` from the code: every recipe of `arl.methods`,
by module. *Made of* reads: advantage, ratio, surrogate with its corrections,
aggregation, further terms; of a recipe over a base, which may be any objective,
what it changes. [Axis by axis](methods.md) has all numbers, and each has a
[card](methods/cards.md) with its equation. *Config* is the argument of
`experiments/quickstart.py` that runs it. *Compared with*:"""
ABOUT = """# Methods, axis by axis

Made by `python -m launch.table` from the code: every recipe of `arl.methods`
with its default numbers, and every golden number that it is compared with. The
[first page](index.md#a-method-is-a-composition) says what the words mean. The
[cards](methods/cards.md) have equations, differences and BibTeX."""
_WORDS = 'word', 'what computed the numbers'
_NOTHING = '–'
_LAMBDA = '`<lambda>`'
_CITATION = re.compile(r'\(([^()]*\b(?:19|20)\d\d)\)')
_STATUS = re.compile(r'\bStatus: (.+?)\.?$')


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


def _chain(steps: types.Steps, show: Callable[..., str] = describe) -> str:
  shown = ((name, show(kernel)) for name, kernel in steps)
  return ' → '.join(f'`{n}`' if x == _LAMBDA else x for n, x in shown)


def _summand(term: compose.Term, aggregate: types.Kernel) -> str:
  """A term as '0.04 kl (`k3`)', and its aggregation where that is its own."""
  name = term.name if term.coef == 1 else f'{term.coef:g} {term.name}'
  shown = [describe(kernel) for _, kernel in term.loss]
  if term.aggregate is not aggregate:
    shown.append(describe(term.aggregate))
  inside = ', '.join(x for x in shown if x != _LAMBDA)
  return f'{name} ({inside})' if inside else name


def row(name: str, made: methods.Made, compared: str = '') -> tuple[str, ...]:
  """The cells of a method, in the order of HEADER.

  A method that was not composed shows nothing but what it needs.
  """
  if isinstance(made, types.Method):
    return (name, *[_NOTHING] * 5, _columns(made.needs), compared)
  needs = _columns(compose.method(made).needs)
  return (name, *_axes(made), needs, compared)


def _axes(
  made: compose.Objective | compose.Term, show: Callable[..., str] = describe
) -> list[str]:
  """The cells of AXES."""
  if isinstance(made, compose.Term):
    term = _summand(made, made.aggregate)
    return [_NOTHING, _NOTHING, _NOTHING, show(made.aggregate), term]
  factors = (*made.corrections, made.surrogate)
  has_ratio = any('log_ratio' in binding.read_by(k) for k in factors)
  terms = '; '.join(_summand(t, made.aggregate) for t in made.terms)
  return [
    _chain(compose.steps(made.advantage), show),
    show(made.ratio) if has_ratio else _NOTHING,
    ' × '.join(map(show, factors)),
    show(made.aggregate),
    terms or _NOTHING,
  ]


def _columns(needs: frozenset[str]) -> str:
  return ', '.join(f'`{name}`' for name in sorted(needs)) or _NOTHING


def made_of(recipe: Callable) -> str:
  """The axes of a recipe in one cell; of one over a base, what it changes."""
  names = functools.partial(_axes, show=lambda k: f'`{binding.kernel_name(k)}`')
  axes = names(recipe())
  base = inspect.signature(recipe).parameters.get('base')
  if base is None:
    return ' · '.join(cell for cell in axes if cell != _NOTHING)
  pairs = zip(AXES, axes, names(methods.objective(base.default)))
  changed = [f'{axis} {cell}' for axis, cell, old in pairs if cell != old]
  return '; '.join(changed)


def source(recipe: Callable) -> str:
  """The publications that a docstring names; nothing if it names none."""
  text = _text(recipe)
  links = [f'[{one}](https://arxiv.org/abs/{one})' for one in papers.ids(text)]
  return ', '.join(links or _CITATION.findall(text)) or _NOTHING


def status(recipe: Callable) -> str:
  """What a docstring says of how well the form is known."""
  found = _STATUS.search(_text(recipe))
  return papers.ARXIV.sub(r'\1', found[1]) if found else ''


def _text(recipe: Callable) -> str:
  return ' '.join((inspect.getdoc(recipe) or '').split())


def _config(name: str) -> str:
  """The argument of experiments/quickstart.py that runs a recipe."""
  run = [key for key, one in configs.METHODS.items() if one['name'] == name]
  return ', '.join(f'`method={key}`' for key in run) or _NOTHING


def short_row(name: str, recipe: Callable, compared: str) -> tuple[str, ...]:
  """The cells of SHORT_HEADER."""
  over = 'base' in inspect.signature(recipe).parameters
  return (
    f'`{name}` over a base' if over else f'`{name}`',
    made_of(recipe),
    source(recipe),
    status(recipe),
    compared,
    _config(name),
  )


class Tables(NamedTuple):
  """The tables of methods, in Markdown.

  Attributes:
    families: a row a module, for README.md.
    recipes: what each is made of and where it comes from, a page.
    axes: every axis with its numbers, a page.
  """

  families: str
  recipes: str
  axes: str


def tables() -> Tables:
  """All tables."""
  found = evidence.find([name for name, _ in recipes()])
  families, short, long = [], [], []
  modules = itertools.groupby(recipes(), lambda each: each[0].partition('.')[0])
  for module, each in modules:
    home = importlib.import_module(f'arl.methods.{module}')
    about = (inspect.getdoc(home) or '').partition('\n')[0]
    heading = f'### `{module}`\n\n{about}\n\n'
    rows = list(each)
    families.append(_family(module, about, [name for name, _ in rows]))
    short.append(
      heading
      + _markdown(
        SHORT_HEADER,
        [short_row(n, r, evidence.short(found[n])) for n, r in rows],
      )
    )
    long.append(
      heading
      + _markdown(
        HEADER,
        [row(f'`{n}`', r(), evidence.long(found[n])) for n, r in rows],
      )
    )
  return Tables(
    _markdown(FAMILY_HEADER, families),
    '\n\n'.join([RECIPES, _markdown(_WORDS, [*evidence.MEANT]), *short]) + '\n',
    '\n\n'.join([ABOUT, *long]) + '\n',
  )


def _family(module: str, about: str, names: list[str]) -> tuple[str, ...]:
  """The cells of FAMILY_HEADER."""
  shown = ', '.join(name.partition('.')[2] for name in names)
  return f'[`{module}`](docs/recipes.md#{module})', about.rstrip('.'), shown


def _markdown(header: tuple[str, ...], rows: list) -> str:
  lines = [header, ['---'] * len(header), *rows]
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


def written(root: pathlib.Path) -> dict[pathlib.Path, str]:
  """What each file should hold."""
  readme = root / 'README.md'
  made = tables()
  return {
    readme: insert(readme.read_text(encoding='utf-8'), made.families),
    root / 'docs' / 'recipes.md': made.recipes,
    root / 'docs' / 'methods.md': made.axes,
  }


if __name__ == '__main__':
  generated.run(written, 'methods', 'python -m launch.table')
