"""The publications that methods come from: docs/papers.bib.

The file is BibTeX, kept simple: an entry begins with '@kind{key,', has a field
a line, '  name = {value},', and ends with '}'.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

FILE = 'docs/papers.bib'
ARXIV = re.compile(r'arXiv:(\d{4}\.\d{5})')
_ENTRY = re.compile(r'^@\w+\{(\w+),\n((?:  \w+ = \{.*\},\n)+)\}$', re.MULTILINE)
_FIELD = re.compile(r'^  (\w+) = \{(.*)\},$', re.MULTILINE)
_NEEDED = ('title', 'year')


class Paper(NamedTuple):
  """An entry.

  Attributes:
    key: its name.
    fields: of the entry, as they are written.
    bibtex: the entry itself.
  """

  key: str
  fields: Mapping[str, str]
  bibtex: str

  @property
  def arxiv(self) -> str:
    """The arXiv id; '' if it has none."""
    return self.fields.get('eprint', '')


def read(text: str) -> dict[str, Paper]:
  """The entries of a file, by key.

  Raises:
    ValueError: a line is no comment and in no entry, two entries have one key,
      or one lacks a title or a year.
  """
  papers: dict[str, Paper] = {}
  for entry in _ENTRY.finditer(text):
    key, fields = entry[1], dict(_FIELD.findall(entry[2]))
    lacks = [name for name in _NEEDED if name not in fields]
    if key in papers or lacks:
      fault = f'has no {lacks[0]}' if lacks else 'is there twice'
      raise ValueError(f'{FILE}: the entry {key!r} {fault}.')
    papers[key] = Paper(key, fields, entry[0])
  for line in _ENTRY.sub('', text).splitlines():
    if line and not line.startswith('%'):
      raise ValueError(
        f'{FILE}: {line!r} is in no entry; write a field a line, as'
        " '  year = {2025},'."
      )
  return papers


def ids(text: str) -> list[str]:
  """The arXiv ids that a text names, each once."""
  return list(dict.fromkeys(ARXIV.findall(text)))


def shown(paper: Paper) -> str:
  """A line of Markdown: authors, title, year and where it is."""
  title = re.sub('[{}]', '', paper.fields['title'])
  parts = [_authors(paper), f'*{title}*', paper.fields['year'], _place(paper)]
  return ', '.join(part for part in parts if part)


def _authors(paper: Paper) -> str:
  """'Lin', 'Lin and Ie' or 'Yu et al.'; '' where they are not known."""
  names = [n for n in paper.fields.get('author', '').split(' and ') if n]
  families = [_family(name) for name in names]
  if len(families) == 2 and families[1] != 'others':
    return ' and '.join(families)
  return f'{families[0]} et al.' if len(families) > 1 else ''.join(families)


def _family(name: str) -> str:
  if name.startswith('{'):
    return name.strip('{}')
  return name.partition(',')[0] if ',' in name else name.split()[-1]


def _place(paper: Paper) -> str:
  if paper.arxiv:
    return f'[arXiv:{paper.arxiv}](https://arxiv.org/abs/{paper.arxiv})'
  url = paper.fields.get('url')
  return f'[{url}]({url})' if url else paper.fields.get('journal', '')
