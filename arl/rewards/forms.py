"""What is paid for the form of a text: tags, JSON, XML."""

import json
import re
import unicodedata
from typing import Any
from xml.etree import ElementTree

import jsonschema

_R1 = ('<think>', '</think>', '<answer>', '</answer>')
_WORDS = re.compile(r'[^\W\d_]+')


def think_answer(text: str) -> bool:
  """Whether a text is one thought and then one answer, and nothing else.

  Each tag once and in order, only space outside of them, neither block empty.
  """
  if any(text.count(tag) != 1 for tag in _R1):
    return False
  pieces = re.split('|'.join(_R1), text)
  order = re.findall('|'.join(_R1), text)
  outside, inside = pieces[::2], pieces[1::2]
  written = all(piece.strip() for piece in inside)
  return order == list(_R1) and not ''.join(outside).strip() and written


def r1(text: str, correct: float, *, weight: float = 1.0) -> float:
  """Whether the answer is right, and `weight` for its form.

  DeepSeek-R1, arXiv:2501.12948, which weighs both alike. What is correct, a
  verifier of the answer block says.
  """
  return correct + weight * think_answer(text)


def language_share(text: str, script: str) -> float:
  """The share of words that are written in a script; 0 of no words.

  DeepSeek-R1's language consistency (arXiv:2501.12948) counts the words of a
  language; the script is what can be seen without a model.

  Args:
    text: a thought, usually.
    script: how the Unicode names of its letters begin, as 'LATIN' or 'CJK'.
  """
  words = _WORDS.findall(text)
  written = [unicodedata.name(word[0], '').startswith(script) for word in words]
  return sum(written) / len(words) if words else 0.0


def json_value(text: str) -> Any:
  """The one JSON value that a text is.

  Raises:
    ValueError: it is something else; an object has a key twice; or a number is
      NaN or infinite, for which JSON has no word.
  """
  try:
    return json.loads(
      text, object_pairs_hook=_once, parse_constant=_no_constant
    )
  except RecursionError as failed:
    raise ValueError('nested too deeply') from failed


def is_json(text: str, schema: dict[str, Any] | None = None) -> bool:
  """Whether a text is one JSON value and nothing else, of a schema if given."""
  try:
    value = json_value(text)
  except ValueError:
    return False
  if schema is None:
    return True
  return jsonschema.Draft202012Validator(schema).is_valid(value)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  made = dict(pairs)
  if len(made) != len(pairs):
    raise ValueError('a key is there twice')
  return made


def _no_constant(name: str) -> None:
  raise ValueError(f'{name} is no JSON')


def is_xml(text: str, root: str, children: tuple[str, ...] = ()) -> bool:
  """Whether a text is one element of this name, with these inside, in order.

  No declarations and comments: what entities expand to has no bound.

  Args:
    text: all of it.
    root: the name of the element.
    children: the names of all elements right inside it; () for any.
  """
  if '<!' in text:
    return False
  try:
    element = ElementTree.fromstring(text.strip())
  except ElementTree.ParseError:
    return False
  names = tuple(child.tag for child in element)
  return element.tag == root and (not children or names == children)


def survey(thought: bool, valid: int, invalid: int, boxed: bool) -> float:
  """A sum of small rewards for form, 0 to 1.

  0.3 for a thought, 0.1 for each valid call, three at most, less 0.2 for each
  invalid one, 0.2 for a box. Surveys describe it, no publication gives a
  formula; that calls count thrice at most, so that they cannot be farmed, is
  ours.
  """
  total = 0.3 * thought + 0.1 * min(valid, 3) - 0.2 * invalid + 0.2 * boxed
  return min(max(total, 0.0), 1.0)
