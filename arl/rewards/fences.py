"""Text of others in a prompt, that cannot pose as more; and reading answers."""

import hashlib
import re
import secrets
from typing import Any

import jsonschema

from arl.rewards import forms

# What chat templates end a turn with, and begin one.
_MARKER = re.compile(
  r'<(?=\|[^|<>\n]{1,40}\|>|/?(?:s|bos|eos|start_of_turn|end_of_turn)>)'
  r'|\[(?=/?(?:INST|SYS)\])'
)


def nonce() -> str:
  """A word that nobody can guess."""
  return secrets.token_hex(8)


def word_of(text: str) -> str:
  """A word that depends on the whole of a text, so that it cannot hold it.

  For a policy that is judged in a run that can be repeated.
  """
  return hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]


def harmless(text: str) -> str:
  """The text with the markers of chat templates in it broken up."""
  return _MARKER.sub(r'\g<0> ', text)


def fence(name: str, text: str, word: str) -> str:
  """A text between two lines that only whoever knows the word can write.

  Should the text hold the word all the same, it is cut out; and markers of chat
  templates in it are broken up.

  Args:
    name: what it is, for the reader.
    text: of anybody.
    word: a `nonce`, made after the text was, or its `word_of`.
  """
  data = text
  while word in data:
    data = data.replace(word, '')
  return f'<{name} {word}>\n{harmless(data)}\n</{name} {word}>'


def read_json(text: str, schema: dict[str, Any]) -> Any:
  """The one JSON value that a text is, in a code block or bare.

  What stands before the end of a thought is skipped.

  Returns:
    The value, an object by the schema; or a sentence of what is wrong.
  """
  bare = text.rpartition('</think>')[2].strip()
  if bare.startswith('```') and bare.endswith('```'):
    bare = bare[3:-3].removeprefix('json')
  try:
    value = forms.json_value(bare)
    jsonschema.validate(value, schema)
  except ValueError as failed:
    return f'gave no JSON: {failed}: {text[:200]!r}'
  except jsonschema.ValidationError as failed:
    return f'broke the schema: {failed.message[:200]}'
  return value
