"""What README.md and BUILD.md name exists, and no text names a machine."""

import ast
import configparser
import pathlib
import re
import shlex
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PAGES = sorted(
  str(path.relative_to(ROOT)) for path in (ROOT / 'docs').rglob('*.md')
)
DOCUMENTS = ('README.md', 'BUILD.md', *PAGES)
TREES = (
  'arl', 'benchmarks', 'ci', 'docs', 'experiments', 'launch', 'notebooks',
  'tests',
)  # fmt: skip
TEXTS = {'.py', '.sh', '.md', '.cfg', '.toml', '.cff', '.ipynb', '.html'}

_BLOCK = re.compile(r'^```(\w*)\n(.*?)^```', re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r'`([^`\n]+)`')
_LINK = re.compile(r'\[[^\]]*\]\(([^)\s]+)\)')
_MACHINE = re.compile(r'/(?:home|root|Users|work|mnt)/\w|[A-Z]:\\Users')


def blocks(text: str, *languages: str) -> list[str]:
  return [code for kind, code in _BLOCK.findall(text) if kind in languages]


def commands(text: str) -> Iterator[list[str]]:
  """The words of every command: of shell blocks, and of `python -m` inline."""
  shell = blocks(text, 'sh', 'bash', 'console')
  inline = [c for c in _spans(text) if c.startswith(('python', 'pip'))]
  for block in shell + inline:
    for line in block.replace('\\\n', ' ').splitlines():
      words = shlex.split(line.removeprefix('$ '), comments=True)
      if words:
        yield words


def _spans(text: str) -> list[str]:
  """Inline code."""
  return _INLINE.findall(_BLOCK.sub('', text))


def _ours(name: str) -> bool:
  return re.split('[/.]', name.removeprefix('.'))[0] in TREES


def modules(text: str) -> Iterator[str]:
  """Files of the modules that commands run."""
  for words in commands(text):
    for before, word in zip(words, words[1:]):
      if before == '-m' and _ours(word):
        yield word.replace('.', '/') + '.py'


def files(text: str) -> Iterator[str]:
  """Files of this project that commands and inline code name."""
  words = [word for command in commands(text) for word in command]
  for word in words + [s for s in _spans(text) if ' ' not in s]:
    name = re.sub('^--[^=]*=', '', word).partition(':')[0]
    if '/' in name and _ours(name):
      yield name


def links(text: str) -> Iterator[str]:
  """Targets of relative links."""
  for target in _LINK.findall(text):
    if '://' not in target and not target.startswith('#'):
      yield target.partition('#')[0]


def extras(text: str) -> Iterator[str]:
  """The extras that commands install."""
  for command in commands(text):
    for word in command:
      for names in re.findall(r'^\.\[(.*)\]$', word):
        yield from names.split(',')


def problems(text: str, folder: pathlib.Path = ROOT) -> list[str]:
  """What a document in a folder names and this project lacks."""
  named = [*modules(text), *files(text)]
  known = setup()['options.extras_require']
  return [
    *(f'no file {name}' for name in named if not (ROOT / name).exists()),
    *(f'no file {to}' for to in links(text) if not (folder / to).exists()),
    *(f'no extra {name}' for name in extras(text) if name not in known),
  ]


def setup() -> configparser.ConfigParser:
  parser = configparser.ConfigParser()
  parser.read(ROOT / 'setup.cfg')
  return parser


@pytest.mark.parametrize('name', DOCUMENTS)
def test_what_a_document_names_exists(name):
  path = ROOT / name
  text = path.read_text(encoding='utf-8')
  assert problems(text, path.parent) == []


def test_documents_have_commands():
  for name in ('README.md', 'BUILD.md'):
    assert list(commands((ROOT / name).read_text(encoding='utf-8')))


@pytest.mark.parametrize('name', DOCUMENTS)
def test_python_in_a_document_parses(name):
  text = (ROOT / name).read_text(encoding='utf-8')
  for block in blocks(text, 'python', 'py'):
    ast.parse(block)


@pytest.mark.parametrize(
  'text, problem',
  [
    ('```sh\nlaunch/none.sh\n```', 'no file launch/none.sh'),
    ('```sh\npython -m launch.none\n```', 'no file launch/none.py'),
    ('```sh\npython -m launch.train \\\n --config=experiments/x.py:quick\n```',
     'no file experiments/x.py'),
    ("```sh\npip install -e '.[test,none]'\n```", 'no extra none'),
    ('see `arl/none.py`', 'no file arl/none.py'),
    ('run `python -m launch.none --check`', 'no file launch/none.py'),
    ('see [this](none.md#part)', 'no file none.md'),
  ],
)  # fmt: skip
def test_a_planted_problem_is_named(text, problem):
  assert problems(text) == [problem]


def test_no_text_names_a_machine():
  paths = [f for tree in TREES for f in (ROOT / tree).rglob('*')]
  paths += [f for f in ROOT.iterdir() if f.is_file()]
  found = [
    f'{file.relative_to(ROOT)}: {match[0]}'
    for file in paths
    if file.suffix in TEXTS
    for match in _MACHINE.finditer(file.read_text(encoding='utf-8'))
  ]
  assert found == []


def test_the_citation_has_the_version_of_the_package():
  citation = (ROOT / 'CITATION.cff').read_text(encoding='utf-8')
  assert f'\nversion: {setup()["metadata"]["version"]}\n' in citation


def test_the_readme_cites_as_the_citation_does():
  citation = (ROOT / 'CITATION.cff').read_text(encoding='utf-8')
  readme = (ROOT / 'README.md').read_text(encoding='utf-8')
  told = dict(re.findall(r'^([\w-]+): "?(.+?)"?$', citation, re.MULTILINE))
  (author,) = re.findall(r'^  - name: (.+)$', citation, re.MULTILINE)
  (block,) = blocks(readme, 'bibtex')
  assert re.findall(r'^  (\w+) = \{+(.+?)\}+,$', block, re.MULTILINE) == [
    ('title', told['title']),
    ('author', author),
    ('year', told['date-released'][:4]),
    ('version', told['version']),
    ('url', told['repository-code']),
  ]


def test_the_citation_has_what_its_format_asks_for():
  citation = (ROOT / 'CITATION.cff').read_text(encoding='utf-8')
  keys = re.findall(r'^([\w-]+):', citation, re.MULTILINE)
  assert {'cff-version', 'message', 'title', 'authors'} <= set(keys)
  assert len(keys) == len(set(keys))
