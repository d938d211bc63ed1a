"""Writes the cards of methods: python -m launch.cards.

A page of docs/methods/ for each module of arl.methods holds a card for each of
its recipes: where it comes from, its equation, where descriptions differ, what
it is made of and compared with, its config, what that has reached and how its
baseline learns, BibTeX.
What no code tells lies in arl/methods/cards/, a file for each module and in it
a section for each recipe; publications are in docs/papers.bib. With --check it
only says whether the pages are up to date, and exits with status 1 if not.
"""

import collections
import configparser
import importlib
import inspect
import itertools
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from arl import methods, types
from arl.methods import binding, compose
from experiments import recipes as configs
from experiments.studies import baselines
from launch import evidence, generated, papers, table

SOURCES, PAGES, INDEX = 'arl/methods/cards', 'docs/methods', 'cards'
SUCCESS, CURVES = 'experiments/METHODS.md', 'curves'
COMMAND = 'python -m launch.cards'
ABOUT = """# Cards of the methods

Made by `{command}`. A card says of one recipe where it comes from, what its
equation is, where the publication, common descriptions and what is here differ,
what it is made of, which columns it needs, which independent numbers it is
compared with, and how it is cited. [One page](../methods.md) has all of them
axis by axis, all publications are in [papers.bib](../papers.bib). Beside what a
card names, every recipe passes the laws of `tests/test_laws.py`. What methods
reach is in the [results]({address}/experiments/RESULTS.md)."""
_SECTION = re.compile(r'^## (\w+)\n', re.MULTILINE)
_CITES = re.compile(r'\Acites: ([\w, ]+)\n+')
_NOTHING = ('', '–')


class Known(NamedTuple):
  """What cards are made from, beside recipes and their sections.

  Attributes:
    papers: entries of docs/papers.bib, by key.
    found: what each recipe is compared with.
    reached: held-out success, by the name of a config.
    curves: baselines whose learning is drawn, by the name of the recipe.
    address: where the project's files can be seen.
  """

  papers: Mapping[str, papers.Paper]
  found: evidence.Found
  reached: Mapping[str, str]
  curves: Mapping[str, list[str]]
  address: str


def _text(path: pathlib.Path) -> str:
  return path.read_text(encoding='utf-8')


def known(root: pathlib.Path, names: list[str]) -> Known:
  """What is known of the recipes of a project with these names."""
  setup = configparser.ConfigParser()
  setup.read_string(_text(root / 'setup.cfg'))
  return Known(
    papers.read(_text(root / papers.FILE)),
    evidence.find(names),
    success(_text(root / SUCCESS)),
    curves(root),
    f'{setup["metadata"]["url"]}/blob/main',
  )


def success(text: str) -> dict[str, str]:
  """The column `success` of the table of methods, by the column `method`."""
  header, _, *rows = (
    [cell.strip() for cell in line.strip('|').split('|')]
    for line in text.splitlines()
    if line.startswith('|')
  )
  method, reached = header.index('method'), header.index('success')
  return {row[method]: row[reached] for row in rows if row[reached]}


def curves(root: pathlib.Path) -> dict[str, list[str]]:
  """The baselines that have a figure under docs/methods/curves, by recipe."""
  made = collections.defaultdict(list)
  for path in sorted((root / PAGES / CURVES).glob('*.png')):
    made[baselines.module(path.stem).METHOD['name']].append(path.stem)
  return made


def sections(text: str) -> dict[str, str]:
  """The sections of a file of arl/methods/cards, by recipe."""
  _, *parts = _SECTION.split(text)
  return {name: body.strip() for name, body in zip(parts[::2], parts[1::2])}


def cited(
  recipe: Callable, section: str, entries: Mapping[str, papers.Paper]
) -> list[papers.Paper]:
  """Publications that a docstring names by arXiv id, and a section by key.

  Raises:
    ValueError: one of them has no entry.
  """
  named = {paper.arxiv: paper for paper in entries.values() if paper.arxiv}
  either = {**entries, **named}
  cites = _CITES.match(section)
  keys = papers.ids(inspect.getdoc(recipe) or '')
  keys += cites[1].split(', ') if cites else []
  for key in keys:
    if key not in either:
      raise ValueError(
        f'{recipe.__module__}.{recipe.__name__} cites {key}; write its entry in'
        f' {papers.FILE}.'
      )
  return [either[key] for key in keys]


def card(name: str, recipe: Callable, section: str, about: Known) -> str:
  """The card of a recipe, in Markdown."""
  summary = (inspect.getdoc(recipe) or '').partition('\n\n')[0]
  sources = cited(recipe, section, about.papers)
  rows = [x for x in _rows(name, recipe, about) if x[1] not in _NOTHING]
  lines = [('part', 'here'), ('---', '---'), *rows]
  entries = '\n\n'.join(paper.bibtex for paper in sources)
  parts = [
    f'## {name}',
    ' '.join(summary.split()),
    '\n'.join(f'- {papers.shown(paper)}' for paper in sources),
    _CITES.sub('', section),
    '\n'.join(f'| {label} | {cell} |' for label, cell in lines),
    *(
      f'![Success of {key} by batches, beside GRPO]({CURVES}/{key}.png)'
      for key in about.curves.get(name, ())
    ),
    f'```bibtex\n{entries}\n```' if entries else '',
  ]
  return '\n\n'.join(part for part in parts if part)


def _rows(
  name: str, recipe: Callable, about: Known
) -> Iterator[tuple[str, str]]:
  """What can be read off the code and the results, and what it is called."""

  def link(shown, path):
    return f'[{shown}]({about.address}/{path})'

  made = recipe()
  compared = evidence.long(about.found[name])
  yield from zip(table.HEADER[1:], table.row(name, made, compared)[1:])
  yield (
    'source',
    ', '.join(
      link(f'`{module.removeprefix("arl.")}`', module.replace('.', '/') + '.py')
      for module in (recipe.__module__, *kernels(made))
    ),
  )
  keys = [key for key, one in configs.METHODS.items() if one['name'] == name]
  yield 'config', '; '.join(map(settings, keys))
  yield (
    'held-out success',
    '; '.join(
      f'{about.reached[key]} by `method={key}`: {link("METHODS.md", SUCCESS)}'
      for key in keys
      if key in about.reached
    ),
  )
  yield 'status', table.status(recipe)


def kernels(made: methods.Made) -> list[str]:
  """The modules of arl.kernels that a method is made of, in order."""
  if isinstance(made, types.Method):
    return []
  modules = [
    binding.function_of(kernel).__module__
    for term in compose.terms_of(made)
    for _, kernel in (*term.credit, *term.loss, ('', term.aggregate))
  ]
  return [m for m in dict.fromkeys(modules) if m.startswith('arl.kernels.')]


def settings(key: str) -> str:
  """What a config of the recipes sets: hyperparameters, then its settings."""
  block = {k: x for k, x in configs.METHODS[key].items() if k != 'name'}
  pairs = {**block, **configs.settings(key)}
  shown = ', '.join(f'{name}={_value(x)}' for name, x in pairs.items())
  return f'`method={key}`' + (f' with `{shown}`' if shown else '')


def _value(value: object) -> str:
  """A value, and a block as a call: 'grpo.dapo(low=0.2, high=0.28)'."""
  if not isinstance(value, Mapping):
    return str(value)
  inside = (f'{k}={_value(x)}' for k, x in value.items() if k != 'name')
  return f'{value["name"]}({", ".join(inside)})'


def page(
  module: str, recipes: Mapping[str, Callable], text: str, about: Known
) -> str:
  """The cards of a module's recipes, with a file of sections.

  Raises:
    ValueError: a recipe has no section, or a section no recipe.
  """
  written = sections(text)
  names = {name.removeprefix(f'{module}.') for name in recipes}
  for name in sorted(names ^ written.keys()):
    lacks = 'a section' if name in names else 'a recipe'
    raise ValueError(
      f'{SOURCES}/{module}.md: {name!r} has not {lacks}; write it.'
    )
  home = importlib.import_module(f'arl.methods.{module}')
  parts = [
    f'# {module}',
    f'Made by `{COMMAND}`: [how to read it]({INDEX}.md).',
    (inspect.getdoc(home) or '').partition('\n')[0],
    *(
      card(name, recipe, written[name.removeprefix(f'{module}.')], about)
      for name, recipe in recipes.items()
    ),
  ]
  return '\n\n'.join(parts) + '\n'


def index(
  modules: Mapping[str, Mapping[str, Callable]], notation: str, about: Known
) -> str:
  """The page that lists all cards and explains their symbols."""
  rows = ['| family | cards |', '| --- | --- |']
  for module, recipes in modules.items():
    links = (
      f'[{name.partition(".")[2]}]({module}.md#{name.replace(".", "")})'
      for name in recipes
    )
    rows.append(f'| [{module}]({module}.md) | {", ".join(links)} |')
  parts = [
    ABOUT.format(command=COMMAND, address=about.address),
    '\n'.join(rows),
    '## Notation',
    notation.strip(),
  ]
  return '\n\n'.join(parts) + '\n'


def written(root: pathlib.Path) -> dict[pathlib.Path, str]:
  """What each page should hold."""
  recipes = list(table.recipes())
  about = known(root, [name for name, _ in recipes])
  grouped = itertools.groupby(recipes, lambda each: each[0].partition('.')[0])
  modules = {module: dict(each) for module, each in grouped}
  sources, pages = root / SOURCES, root / PAGES
  notation = _text(sources / 'notation.md')
  made = {pages / f'{INDEX}.md': index(modules, notation, about)}
  for module, each in modules.items():
    source = sources / f'{module}.md'
    text = _text(source) if source.exists() else ''
    made[pages / f'{module}.md'] = page(module, each, text, about)
  return made


if __name__ == '__main__':
  generated.run(written, 'cards', COMMAND)
