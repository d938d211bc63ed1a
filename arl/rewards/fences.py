"""Putting text of others into a prompt as data, that cannot pose as more."""

import re
import secrets

# What chat templates end a turn with, and begin one.
_MARKER = re.compile(
  r'<(?=\|[^|<>\n]{1,40}\|>|/?(?:s|bos|eos|start_of_turn|end_of_turn)>)'
  r'|\[(?=/?(?:INST|SYS)\])'
)


def nonce() -> str:
  """A word that nobody can guess."""
  return secrets.token_hex(8)


def fence(name: str, text: str, word: str) -> str:
  """A text between two lines that only whoever knows the word can write.

  Should the text hold the word all the same, it is cut out; and markers of chat
  templates in it are broken up.

  Args:
    name: what it is, for the reader.
    text: of anybody.
    word: a `nonce`, made after the text was.
  """
  data = text
  while word in data:
    data = data.replace(word, '')
  data = _MARKER.sub(r'\g<0> ', data)
  return f'<{name} {word}>\n{data}\n</{name} {word}>'
