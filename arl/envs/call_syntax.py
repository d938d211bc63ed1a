"""How models spell tool calls, by name: text to calls, and calls to text.

Every reader follows the rules of `arl.envs.calls`: nothing a policy writes
raises, a broken call costs no other, what is quoted in a thought is no call,
and reading takes time linear in the length of the text.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from arl.envs import call_syntax_json, call_syntax_xml, calls

_LOOKS_LIKE_A_CALL = re.compile(r'\s*[A-Za-z_][A-Za-z0-9_]*\(')
_LABELS = re.compile(
  r'^(?P<label>Thought|Action Input|Action|Observation|Final Answer):[ \t]*',
  re.MULTILINE,
)
_NO_INPUT = calls.Fault('error: no Action Input after the Action')
_NO_OBJECT = calls.Fault('error: the Action Input is no json object')


class Syntax(NamedTuple):
  """A way to spell calls.

  Attributes:
    read: (text, tools) -> what the text says. The tools decide the type of what
      is spelled without one, and no more: whether a call fits is for
      `calls.check`.
    write: calls -> a text that reads back as them.
  """

  read: Callable[[str, Sequence[calls.Tool]], calls.Reply]
  write: Callable[[Sequence[calls.Call]], str]


def read_react(text: str, tools: Sequence[calls.Tool]) -> calls.Reply:
  """Reads lines `Action: name` and `Action Input: {..}`.

  An input that is no object is the argument of a tool that takes one string.
  Nothing after `Observation:` or `Final Answer:` is a call.
  """
  labels = list(_LABELS.finditer(text, call_syntax_json.thought(text)))
  found: list[tuple[calls.Call | calls.Fault, int, int]] = []
  position, truncated = 0, False
  for i, label in enumerate(labels):
    if label.start() < position:
      continue
    if label['label'] in ('Observation', 'Final Answer'):
      break
    if label['label'] != 'Action':
      continue
    following = labels[i + 1] if i + 1 < len(labels) else None
    if following is None:
      truncated = True
    elif following['label'] != 'Action Input':
      found.append((_NO_INPUT, label.start(), following.start()))
    else:
      name = text[label.end() : following.start()].strip()
      ends = labels[i + 2].start() if i + 2 < len(labels) else len(text)
      call, position = _action(text, name, following.end(), ends, tools)
      if position is None:
        return calls.reply(text, found, True)
      found.append((call, label.start(), position))
  return calls.reply(text, found, truncated)


def _action(text, name, start, ends, tools):
  """The call whose input begins at start, and its end; None where it is cut."""
  begin = call_syntax_json.after_space(text, start)
  if begin == len(text):
    return _NO_OBJECT, None
  if not text.startswith('{', begin):
    return _of_one_text(name, text[start:ends].strip(), tools), ends
  try:
    value, end = calls.decode(text, begin)
  except ValueError:
    cut = ends == len(text) and not call_syntax_json.balanced(text, begin)
    return _NO_OBJECT, None if cut else ends
  return calls.Call(name, value), end


def _of_one_text(name, text, tools) -> calls.Call | calls.Fault:
  for tool in tools:
    properties = tool.parameters.get('properties', {})
    kinds = [p.get('type') for p in properties.values()]
    if tool.name == name and kinds == ['string']:
      return calls.Call(name, {next(iter(properties)): text})
  return _NO_OBJECT


def read_positional(text: str, tools: Sequence[calls.Tool]) -> calls.Reply:
  """Reads `name(argument, argument)`, the whole text being one call."""
  if not _LOOKS_LIKE_A_CALL.match(text):
    return calls.Reply((), False, text)
  call = calls.parse(text, tools)
  return calls.reply(text, [(call, 0, len(text))], False)


def _json(value: Any) -> str:
  return json.dumps(value, ensure_ascii=False)


def _spell(call: calls.Call, key: str) -> str:
  return _json({'name': call.name, key: call.arguments})


def _write_hermes(made: Sequence[calls.Call]) -> str:
  return '\n'.join(
    f'<tool_call>\n{_spell(call, "arguments")}\n</tool_call>' for call in made
  )


def _write_llama(made: Sequence[calls.Call]) -> str:
  return '; '.join(_spell(call, 'parameters') for call in made)


def _write_coder(made: Sequence[calls.Call]) -> str:
  def spell(call):
    lines = ['<tool_call>', f'<function={call.name}>']
    for key, value in call.arguments.items():
      text = value if isinstance(value, str) else _json(value)
      lines += [f'<parameter={key}>', text, '</parameter>']
    return '\n'.join([*lines, '</function>', '</tool_call>'])

  return '\n'.join(spell(call) for call in made)


def _write_react(made: Sequence[calls.Call]) -> str:
  return '\n'.join(
    f'Action: {call.name}\nAction Input: {_json(call.arguments)}'
    for call in made
  )


def _write_positional(made: Sequence[calls.Call]) -> str:
  return '\n'.join(
    f'{call.name}({", ".join(map(str, call.arguments.values()))})'
    for call in made
  )


SYNTAXES: Mapping[str, Syntax] = {
  'hermes': Syntax(lambda text, tools: calls.json_calls(text), _write_hermes),
  'llama': Syntax(call_syntax_json.read, _write_llama),
  'coder': Syntax(call_syntax_xml.read, _write_coder),
  'react': Syntax(read_react, _write_react),
  'positional': Syntax(read_positional, _write_positional),
}
