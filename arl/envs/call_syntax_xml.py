"""Calls as tags for function and parameters, as Qwen3-Coder spells them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from arl.envs import calls

_TAGS = re.compile(
  r'</?think>|</?tool_call>|<function=(?P<function>[^<>\n]*)>|</function>'
  r'|<parameter=(?P<parameter>[^<>\n]*)>|</parameter>'
)
_UNCLOSED = calls.Fault('error: a function or a parameter is not closed')
_NO_FUNCTION = calls.Fault('error: no function in the tool_call')

Found = list[tuple[calls.Call | calls.Fault, int, int]]


def read(text: str, tools: Sequence[calls.Tool]) -> calls.Reply:
  """Reads `<function=name><parameter=key>value</parameter></function>`.

  Each may stand in `<tool_call>`. A value is the text between its tags but for
  one line break at each end. It may hold any tag: it ends at a `</parameter>`
  before another parameter or the end of the function. What the tool's schema
  does not call a string is read as JSON, where it is JSON.
  """
  tags = list(_TAGS.finditer(text))
  found: Found = []
  i, wrapper, thinking, thought = 0, -1, False, False
  while i < len(tags):
    tag, at = tags[i], i
    i += 1
    match tag.group():
      case '<think>':
        thinking = thought = True
      case '</think>':
        if not thought:
          found.clear()
        thinking, thought = False, True
      case _ if thinking:
        pass
      case '<tool_call>':
        wrapper = tag.start()
      case '</tool_call>' if wrapper >= 0:
        found.append((_NO_FUNCTION, wrapper, tag.end()))
        wrapper = -1
      case _ if tag['function'] is not None:
        start = tag.start() if wrapper < 0 else wrapper
        call, i = _function(text, tags, at, tools)
        if call is None:
          return calls.reply(text, found, True)
        wrapper = -1
        i += _closed(text, tags, i)
        found.append((call, start, tags[i - 1].end()))
  return calls.reply(text, found, wrapper >= 0)


def _function(text, tags, first, tools):
  """The call whose function the tag `first` opens, and the tag after it.

  The call is None where the text stops inside it.
  """
  written: dict[str, str] = {}
  i = first + 1
  while i < len(tags):
    tag = tags[i]
    if tag['parameter'] is not None:
      end = _value_end(text, tags, i + 1)
      if end is None:
        break
      written[tag['parameter'].strip()] = _inside(text, tag, tags[end])
      i = end
    elif tag.group() == '</function>':
      return _typed(tags[first]['function'].strip(), written, tools), i + 1
    elif tag['function'] is not None or tag.group() == '<tool_call>':
      return _UNCLOSED, i
    i += 1
  if any(tag.group() == '</function>' for tag in tags[i:]):
    return _UNCLOSED, len(tags)
  return None, len(tags)


def _value_end(text: str, tags: Sequence[re.Match], first: int) -> int | None:
  """The tag that ends a value: what may follow a value follows it."""
  for i in range(first, len(tags) - 1):
    if tags[i].group() == '</parameter>':
      after = tags[i + 1]
      fits = after.group() == '</function>' or after['parameter'] is not None
      if fits and not text[tags[i].end() : after.start()].strip():
        return i
  return None


def _inside(text: str, opening: re.Match, closing: re.Match) -> str:
  value = text[opening.end() : closing.start()]
  return value.removeprefix('\n').removesuffix('\n')


def _closed(text: str, tags: Sequence[re.Match], i: int) -> bool:
  """Whether the next tag closes the block that a function stands in."""
  if i >= len(tags) or tags[i].group() != '</tool_call>':
    return False
  return not text[tags[i - 1].end() : tags[i].start()].strip()


def _typed(
  name: str, written: Mapping[str, str], tools: Sequence[calls.Tool]
) -> calls.Call:
  properties: Mapping[str, Any] = {}
  for tool in tools:
    if tool.name == name:
      properties = tool.parameters.get('properties', {})
  arguments = {}
  for key, text in written.items():
    kind = properties.get(key, {}).get('type', 'string')
    arguments[key] = text if kind == 'string' else _value(text.strip(), text)
  return calls.Call(name, arguments)


def _value(spelled: str, text: str) -> Any:
  """The JSON value that is spelled; else the text."""
  try:
    value, end = calls.decode(spelled, 0)
  except ValueError:
    return text
  return value if end == len(spelled) else text
