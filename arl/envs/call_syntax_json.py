"""Calls as JSON objects without tags, as Llama 3 spells them."""

import re
from collections.abc import Sequence

from arl.envs import calls

PYTHON_TAG = '<|python_tag|>'
_OPEN, _CLOSE = '<think>', '</think>'
_SPACE = re.compile(r'\s*')
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}]', re.DOTALL)
_NO_JSON = calls.Fault('error: the call is no json object')
_NO_NAME = calls.Fault('error: a call is an object with name and parameters')
_MORE = calls.Fault('error: only ; and another call may follow a call')


def thought(text: str) -> int:
  """Where the thought ends that a text begins with; 0 for none."""
  opened = text.lstrip().startswith(_OPEN)
  closed = text.find(_CLOSE)
  if closed >= 0:
    return closed + len(_CLOSE)
  return len(text) if opened else 0


def after_space(text: str, at: int) -> int:
  """Where the white space ends that begins at a place, perhaps there."""
  space = _SPACE.match(text, at)
  return space.end() if space else at


def balanced(text: str, start: int) -> int | None:
  """Where the braces opened at start are all closed; those in strings rest."""
  depth = 0
  for part in _QUOTED.finditer(text, start):
    depth += {'{': 1, '}': -1}.get(part.group(), 0)
    if not depth and part.group() == '}':
      return part.end()
  return None


def read(text: str, tools: Sequence[calls.Tool]) -> calls.Reply:
  """Reads `{"name": .., "parameters": ..}`, several with `;` between them.

  They follow `<|python_tag|>`, or are the whole text but for a thought. Without
  the tag, an object that has no name is an answer, not a call.
  """
  del tools
  bare = text.lstrip().startswith('{')
  begin = 0 if bare else thought(text)
  tag = -1 if bare else text.find(PYTHON_TAG, begin)
  tagged = tag >= 0
  start, at = (tag, tag + len(PYTHON_TAG)) if tagged else (begin, begin)
  found: list[tuple[calls.Call | calls.Fault, int, int]] = []
  while True:
    at = after_space(text, at)
    if not text.startswith('{', at):
      if tagged and at < len(text):
        found.append((_NO_JSON, start, len(text)))
      return calls.reply(text, found, tagged and at == len(text) and not found)
    call, end = _object(text, at)
    if end is None:
      return calls.reply(text, found, True)
    if call is None and not tagged:
      return calls.reply(text, found, False)
    at = after_space(text, end)
    last = not text.startswith(';', at)
    if last and at < len(text):
      call = _MORE
    found.append((call or _NO_NAME, start, len(text) if last else at + 1))
    if last:
      return calls.reply(text, found, False)
    start = at = at + 1


def _object(text: str, start: int):
  """The call that begins at start, None where it has no name; and its end.

  The end is None where the text stops inside the object.
  """
  try:
    value, end = calls.decode(text, start)
  except ValueError:
    return _NO_JSON, balanced(text, start)
  if 'name' not in value:
    return None, end
  key = 'arguments' if 'arguments' in value else 'parameters'
  return calls.from_json(value, key), end
