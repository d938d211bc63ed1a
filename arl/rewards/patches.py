"""How alike two changes of code are, text against text (SWE-RL)."""

import difflib
import re
import statistics
from collections.abc import Mapping
from typing import NamedTuple

_TAGS = ('<think>', '</think>', '<solution>', '</solution>')
_BLOCK = re.compile(
  r'^### (?P<path>[^\n]+)\n<<<<<<< SEARCH\n(?P<search>.*?)\n?^=======\n'
  r'(?P<replace>.*?)\n?^>>>>>>> REPLACE$',
  re.DOTALL | re.MULTILINE,
)
WRONG_FORM = -1.0


class Edit(NamedTuple):
  """Lines of a file that are to be others."""

  path: str
  search: str
  replace: str


class FormError(ValueError):
  """A completion that is not what was asked for, and why."""


def read(text: str) -> list[Edit]:
  """The edits of a completion: a thought, then a solution of edit blocks.

  A block is `### path`, then the lines to find between `<<<<<<< SEARCH` and
  `=======`, and those to put there before `>>>>>>> REPLACE`.

  Raises:
    FormError: a tag is missing or there twice, the thought is empty, or there
      is no block.
  """
  for tag in _TAGS:
    if text.count(tag) != 1:
      raise FormError(f'{tag} is there {text.count(tag)} times, not once')
  places = [text.index(tag) for tag in _TAGS]
  if places != sorted(places):
    raise FormError('the tags are not in order')
  if not text[places[0] + len(_TAGS[0]) : places[1]].strip():
    raise FormError('the thought is empty')
  solution = text[places[2] + len(_TAGS[2]) : places[3]]
  return blocks(solution)


def blocks(text: str) -> list[Edit]:
  """The edit blocks of a text, as `read` has them.

  Raises:
    FormError: there is none.
  """
  found = _BLOCK.finditer(text)
  edits = [Edit(b['path'].strip(), b['search'], b['replace']) for b in found]
  if not edits:
    raise FormError('there is no edit block')
  return edits


def apply(files: Mapping[str, str], edits: list[Edit]) -> dict[str, str]:
  """The files that edits change, as they are afterwards.

  Raises:
    FormError: an edit changes nothing, or its file does not hold its lines.
  """
  made: dict[str, str] = {}
  for edit in edits:
    if edit.search == edit.replace:
      raise FormError(f'an edit of {edit.path} changes nothing')
    # Whole lines: the search starts where one does.
    before = '\n' + made.get(edit.path, files.get(edit.path, ''))
    if '\n' + edit.search not in before:
      raise FormError(f'{edit.path} does not hold the lines of an edit')
    after = before.replace('\n' + edit.search, '\n' + edit.replace)
    made[edit.path] = after[1:]
  return made


def diff(before: str, after: str) -> str:
  """A unified diff without its head: three lines around each change."""
  lines = difflib.unified_diff(
    before.splitlines(), after.splitlines(), lineterm='', n=3
  )
  return '\n'.join(list(lines)[2:])


def _diffs(
  files: Mapping[str, str], changed: Mapping[str, str]
) -> dict[str, str]:
  made = {p: diff(files.get(p, ''), text) for p, text in changed.items()}
  return {path: text for path, text in made.items() if text}


def similarity(ours: Mapping[str, str], theirs: Mapping[str, str]) -> float:
  """How alike two patches are: 1 equal, 0 nothing in common.

  The mean over the files that either changes of the share of their diffs that
  matches (difflib's ratio); 0 for a file that only one changes. Two patches
  that change nothing are alike.

  Args:
    ours: diffs by path.
    theirs: diffs by path.
  """
  paths = sorted(ours.keys() | theirs.keys())
  if not paths:
    return 1.0
  return statistics.fmean(
    _ratio(ours.get(path, ''), theirs.get(path, '')) for path in paths
  )


def _ratio(ours: str, theirs: str) -> float:
  if not ours or not theirs:
    return 0.0
  return difflib.SequenceMatcher(None, ours, theirs, autojunk=False).ratio()


def swe_rl(
  text: str, files: Mapping[str, str], fixed: Mapping[str, str]
) -> float:
  """-1 for a wrong form, else how alike a patch is to the right one.

  SWE-RL, arXiv:2502.18449, as its published code, which runs no tests. Slow for
  long diffs, as difflib is: ask a pool for it.

  Args:
    text: what the policy wrote, as `read` has it.
    files: the files it may change, by path.
    fixed: those that the right patch changes, as they are after it.
  """
  try:
    changed = apply(files, read(text))
  except FormError:
    return WRONG_FORM
  return alike(files, changed, fixed)


def alike(
  files: Mapping[str, str], ours: Mapping[str, str], theirs: Mapping[str, str]
) -> float:
  """`similarity` of two changes of files, given the files after each."""
  return similarity(_diffs(files, ours), _diffs(files, theirs))


def hybrid(alike: float, passed: float, *, share: float = 0.2) -> float:
  """share * similarity + (1 - share) * tests passed.

  What surveys name for SWE-RL, and no publication has; the share is ours.
  """
  return share * alike + (1 - share) * passed
