"""Tool calls spelled as Python: `[f(a=1), g.h(b='x')]`, read and never run.

Arguments are literals: numbers, strings, True, False, None, and lists, tuples
and dictionaries of them. Names, operators, comprehensions and calls within
calls are faults.
"""

import ast
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from arl.envs import calls

LONGEST = 20_000  # characters that are read
DEEPEST = 40  # brackets within brackets
_NO_CALLS = calls.Fault('error: use [name(argument=value), ..]')


class Call(NamedTuple):
  """A call as written.

  Attributes:
    name: with its dots.
    positional: the arguments without a name, in order.
    arguments: the others, by name.
  """

  name: str
  positional: tuple[Any, ...]
  arguments: Mapping[str, Any]


def read(text: str) -> tuple[Call, ...] | calls.Fault:
  """The calls of a text that is calls and nothing else.

  The outer brackets may be left out, and a fence of code may be around it.
  """
  text = text.strip('`\n ').removeprefix('python\n').strip()
  if not text.startswith('['):
    text = f'[{text}]'
  if len(text) > LONGEST or _depth(text) > DEEPEST:
    return calls.Fault('error: the calls are too long')
  try:
    body = ast.parse(text, mode='eval').body
  except (SyntaxError, ValueError, RecursionError, MemoryError):
    return _NO_CALLS
  if not isinstance(body, ast.List):
    return _NO_CALLS
  try:
    return tuple(_call(node) for node in body.elts)
  except (ValueError, RecursionError) as error:
    return calls.Fault(f'error: {error}')


def write(made: Sequence[Call]) -> str:
  """A text that reads back as the calls."""
  return f'[{", ".join(map(_spell, made))}]'


def _spell(call: Call) -> str:
  words = [repr(value) for value in call.positional]
  words += [f'{name}={value!r}' for name, value in call.arguments.items()]
  return f'{call.name}({", ".join(words)})'


def _depth(text: str) -> int:
  """The most brackets that are open at once, those in strings included."""
  depth = most = 0
  for letter in text:
    if letter in '([{':
      depth += 1
      most = max(most, depth)
    elif letter in ')]}':
      depth -= 1
  return most


def _call(node: ast.expr) -> Call:
  if not isinstance(node, ast.Call):
    raise ValueError('use [name(argument=value), ..]')
  arguments = {}
  for keyword in node.keywords:
    if keyword.arg is None:
      raise ValueError('name each argument instead of **')
    if keyword.arg in arguments:
      raise ValueError(f'{keyword.arg[:40]} is given twice')
    arguments[keyword.arg] = _literal(keyword.value)
  return Call(_dotted(node.func), tuple(map(_literal, node.args)), arguments)


def _dotted(node: ast.expr) -> str:
  match node:
    case ast.Name(id=name):
      return name
    case ast.Attribute(value=value, attr=name):
      return f'{_dotted(value)}.{name}'
  raise ValueError('call functions by their name')


def _literal(node: ast.expr | None) -> Any:
  match node:
    case ast.Constant(value=None | bool() | int() | float() | str() as value):
      return value
    case ast.UnaryOp(
      op=ast.USub() | ast.UAdd() as sign,
      operand=ast.Constant(value=int() | float() as value),
    ) if not isinstance(value, bool):
      return -value if isinstance(sign, ast.USub) else value
    case ast.List(elts=items):
      return [_literal(item) for item in items]
    case ast.Tuple(elts=items):
      return tuple(_literal(item) for item in items)
    case ast.Dict(keys=keys, values=values):
      return dict(zip(map(_key, keys), map(_literal, values)))
  raise ValueError('arguments are literals')


def _key(node: ast.expr | None) -> Any:
  key = _literal(node)
  if isinstance(key, list | dict | tuple):
    raise ValueError('keys are words or numbers')
  return key
