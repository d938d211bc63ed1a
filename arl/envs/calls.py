"""Tool calls as text: typed arguments, faults as sentences.

Whatever a policy writes becomes a `Call` or a `Fault`; nothing it writes
raises, and reading takes time linear in its length. `parse` reads the small
syntax `name(argument, argument)`, for models that spell one character at a
time. `json_calls` reads `<tool_call>{"name": .., "arguments": ..}</tool_call>`
blocks, for models whose chat template writes them. `arl.envs.call_syntax` has
the others, and all of them by name.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jsonschema

_NAME = re.compile(r'[A-Za-z_][A-Za-z0-9_]*')
_INTEGER = re.compile(r'[+-]?[0-9]{1,100}')
_NUMBER = re.compile(
  r'[+-]?[0-9]{1,100}(\.[0-9]{1,100})?([eE][+-]?[0-9]{1,3})?'
)
_TAG = re.compile(r'</?(?:tool_call|think)>')
_SPACE = re.compile(r'\s*')
_CLOSE = re.compile(r'\s*</tool_call>')


class Tool(NamedTuple):
  """Something a policy may call.

  Attributes:
    name: what it is called by.
    description: what it does, for a chat template.
    parameters: JSON schema of the arguments, of type object. The order of its
      properties is that of positional arguments.
    run: takes the arguments by name, returns the observation. A call that
      cannot be served is an observation too, `error: ...`; an exception means
      that the tool itself broke.
  """

  name: str
  description: str
  parameters: Mapping[str, Any]
  run: Callable[..., str]


class Call(NamedTuple):
  """A call as written: whether the tool exists is for `check` to say."""

  name: str
  arguments: Mapping[str, Any]


class Fault(NamedTuple):
  """What was wrong with a call, as a sentence for the policy."""

  error: str


class Reply(NamedTuple):
  """What a text that may hold calls says.

  Attributes:
    calls: well-formed calls and the faults of closed but broken ones, in order.
    truncated: whether the text ends inside a call.
    rest: the text without its well-formed calls.
  """

  calls: tuple[Call | Fault, ...]
  truncated: bool
  rest: str


def parse(text: str, tools: Sequence[Tool]) -> Call | Fault:
  """Reads `name(argument, argument)`, the whole text being one call.

  Arguments are the raw text between commas, bound to the properties of the
  tool's schema in order and converted to their type. There is no quoting: a
  string argument holds no comma.

  Raises:
    ValueError: a tool has a parameter that this syntax cannot spell.
  """
  name, _, rest = text.strip().partition('(')
  if not rest.endswith(')') or not _NAME.fullmatch(name):
    return Fault('error: use name(arguments)')
  tool = _find(name, tools)
  if isinstance(tool, Fault):
    return tool
  inside = rest[:-1].strip()
  words = [word.strip() for word in inside.split(',')] if inside else []
  arguments = _bind(tool, words)
  if isinstance(arguments, Fault):
    return arguments
  return check(Call(name, arguments), tools)


def check(call: Call, tools: Sequence[Tool]) -> Call | Fault:
  """The call itself if a tool takes it, else what is wrong with it."""
  tool = _find(call.name, tools)
  if isinstance(tool, Fault):
    return tool
  validator = jsonschema.Draft202012Validator(tool.parameters)
  try:
    error = next(validator.iter_errors(call.arguments), None)
  except RecursionError:
    return Fault(f'error: {tool.name}: arguments are nested too deep')
  if error is None:
    return call
  where = '.'.join([tool.name, *map(str, error.absolute_path)])
  return Fault(f'error: {_shown(where, 40)}: {_shown(error.message, 60)}')


def invoke(call: Call | Fault, tools: Sequence[Tool]) -> str:
  """The observation: what the tool returned, or what was wrong.

  Raises:
    TypeError: the tool returned something other than a str.
  """
  checked = call if isinstance(call, Fault) else check(call, tools)
  if isinstance(checked, Fault):
    return checked.error
  tool = next(tool for tool in tools if tool.name == checked.name)
  observation = tool.run(**checked.arguments)
  if not isinstance(observation, str):
    raise TypeError(
      f'tool {tool.name!r} returned {type(observation).__name__}; return a str.'
    )
  return observation


def json_calls(text: str) -> Reply:
  """Reads the `<tool_call>` blocks of a reply.

  The JSON decoder decides where a call ends, so its strings may hold tags and
  braces. Blocks inside `<think>` are no calls, nor are those before a first
  `</think>` that nothing opened: there the chat template did. Arguments may be
  an object or a string that spells one. A block that no `</tool_call>` follows
  is truncated, even if its object is complete.
  """
  tags = list(_TAG.finditer(text))
  closings = [tag.start() for tag in tags if tag.group() == '</tool_call>']
  last_closing = closings[-1] if closings else -1
  found: list[tuple[Call | Fault, int, int]] = []
  position, thinking, thought, truncated = 0, False, False, False
  for tag in tags:
    if tag.start() < position:
      continue
    match tag.group():
      case '<think>':
        thinking = thought = True
      case '</think>':
        if not thought:
          found.clear()
        thinking, thought = False, True
      case '<tool_call>' if not thinking:
        call, position, closed = _block(text, tag.end())
        if not closed and last_closing < position:
          truncated = True
          break
        found.append((call, tag.start(), position))
  return reply(text, found, truncated)


def reply(
  text: str, found: Sequence[tuple[Call | Fault, int, int]], truncated: bool
) -> Reply:
  """A Reply from what was found in a text, and from where to where each is."""
  kept, position = [], 0
  for call, start, end in found:
    if isinstance(call, Call):
      kept.append(text[position:start])
      position = end
  rest = ''.join([*kept, text[position:]])
  return Reply(tuple(call for call, _, _ in found), truncated, rest)


def _find(name: str, tools: Sequence[Tool]) -> Tool | Fault:
  for tool in tools:
    if tool.name == name:
      return tool
  names = ', '.join(tool.name for tool in tools)
  return Fault(f"error: no tool '{_shown(name, 12)}'; tools: {names}")


def _bind(tool: Tool, words: Sequence[str]) -> dict[str, Any] | Fault:
  """Positional words as typed arguments by name."""
  properties = tool.parameters.get('properties', {})
  if len(words) > len(properties):
    return Fault(f'error: use {tool.name}({", ".join(properties)})')
  arguments = {}
  for (key, schema), word in zip(properties.items(), words):
    kind = schema.get('type')
    if kind not in _CONVERT:
      raise ValueError(
        f'tool {tool.name!r}: parameter {key!r} has type {kind!r}; '
        f'name(arguments) can spell {", ".join(_CONVERT)}.'
      )
    value = _CONVERT[kind](word)
    if value is None:
      return Fault(f"error: '{_shown(word, 12)}' is no {kind} for {key}")
    arguments[key] = value
  return arguments


def _integer(word: str) -> int | None:
  return int(word) if _INTEGER.fullmatch(word) else None


def _number(word: str) -> float | None:
  value = float(word) if _NUMBER.fullmatch(word) else math.inf
  return value if math.isfinite(value) else None


_CONVERT: Mapping[str, Callable[[str], Any]] = {
  'integer': _integer,
  'number': _number,
  'string': str,
}


def _block(text: str, start: int) -> tuple[Call | Fault, int, bool]:
  """The call whose object begins at start, where it ends, and if it is closed.

  A block that cannot be read ends where it began, so that tags inside it are
  looked at again. Still linear: a decoder passes over a tag only within a
  string, one that starts at that tag is outside, and the next quote swaps the
  two, so at the next tag one of them fails. At most two are ever under way.
  """
  space = _SPACE.match(text, start)
  begin = space.end() if space else start
  try:
    value, end = decode(text, begin)
  except ValueError:
    return Fault('error: the call is no json object'), start, False
  closing = _CLOSE.match(text, end)
  if not closing:
    return Fault('error: no </tool_call> after the object'), end, False
  return from_json(value, 'arguments'), closing.end(), True


def from_json(value: Any, key: str) -> Call | Fault:
  """A decoded object as a call whose arguments are under the key."""
  if not isinstance(value, dict) or not {'name', key} <= value.keys():
    return Fault(f'error: a call is an object with name and {key}')
  name, arguments = value['name'], value[key]
  if not isinstance(name, str):
    return Fault('error: the name of a call is a string')
  if isinstance(arguments, str):
    arguments = spelled(arguments.strip())
  if not isinstance(arguments, dict):
    return Fault(f'error: the {key} of a call are an object')
  return Call(name, arguments)


def spelled(text: str) -> Any:
  """The JSON value a text spells; None where it spells none."""
  try:
    value, end = decode(text, 0)
  except ValueError:
    return None
  return value if end == len(text) else None


def _refuse(constant: str) -> float:
  raise ValueError(f'{constant} is not JSON.')


def _finite(digits: str) -> float:
  value = float(digits)
  return value if math.isfinite(value) else _refuse(digits)


# Not strict: models write line breaks into strings as they are.
_DECODER = json.JSONDecoder(
  parse_constant=_refuse, parse_float=_finite, strict=False
)


def decode(text: str, start: int) -> tuple[Any, int]:
  """The JSON value at start, and its end.

  Raises:
    ValueError: it is not JSON, nested too deep, or holds half of a surrogate
      pair, which could be written to no tool.
  """
  try:
    value, end = _DECODER.raw_decode(text, start)
    json.dumps(value, ensure_ascii=False).encode()
  except RecursionError as error:
    raise ValueError('nested too deep') from error
  return value, end


def _shown(text: str, limit: int) -> str:
  """At most `limit` characters of the text, in printable ASCII."""
  return ''.join(c if ' ' <= c <= '~' else '?' for c in text[:limit])
