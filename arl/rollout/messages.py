"""Messages of a conversation with tools, as the OpenAI chat format has them.

A message that comes from outside is checked field by field, and what is not
known is refused by its name: a field that is dropped is a prompt that nobody
meant.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from arl.envs import calls

Message = dict[str, Any]

_ROLES = {'developer': 'system', 'system': 'system', 'user': 'user',
          'assistant': 'assistant', 'tool': 'tool'}  # fmt: skip
_FIELDS = {
  'system': {'role', 'content', 'name'},
  'user': {'role', 'content', 'name'},
  'assistant': {
    'role', 'content', 'name', 'tool_calls', 'reasoning_content', 'refusal',
    'audio', 'function_call', 'annotations',
  },
  'tool': {'role', 'content', 'name', 'tool_call_id'},
}  # fmt: skip
# Of an assistant, there to be empty.
_EMPTY = ('refusal', 'audio', 'function_call', 'annotations')


class Refused(ValueError):
  """A request that says something that cannot be done, and what it is."""


def read(messages: Any) -> list[Message]:
  """Messages from outside, checked and in one form.

  Texts are strings, and arguments of calls are mappings: written as JSON text
  they would be encoded twice by a template.

  Raises:
    Refused: naming the message and the field.
  """
  if not isinstance(messages, list) or not messages:
    raise Refused('messages: give a list of at least one message.')
  return [_message(f'messages[{i}]', m) for i, m in enumerate(messages)]


def _message(where: str, given: Any) -> Message:
  if not isinstance(given, dict) or given.get('role') not in _ROLES:
    raise Refused(f'{where}: give an object whose role is one of {[*_ROLES]}.')
  role = _ROLES[given['role']]
  for key, value in given.items():
    empty = role == 'assistant' and key in _EMPTY
    if key not in _FIELDS[role] or (empty and value):
      raise Refused(
        f'{where}.{key}: a message of the role {role!r} has no such field here;'
        ' leave it out.'
      )
  made: Message = {'role': role, 'content': _text(where, given.get('content'))}
  for key in ('name', 'tool_call_id', 'reasoning_content'):
    value = given.get(key)
    if value is not None and not isinstance(value, str):
      raise Refused(f'{where}.{key}: give a string.')
    if value:
      made[key] = value
  if given.get('tool_calls'):
    made['tool_calls'] = _calls(f'{where}.tool_calls', given['tool_calls'])
  elif role != 'assistant' and given.get('content') is None:
    raise Refused(f'{where}.content is missing.')
  return made


def _text(where: str, content: Any) -> str:
  if content is None:
    return ''
  if isinstance(content, str):
    return content
  if not isinstance(content, list):
    raise Refused(f'{where}.content: give a string, or a list of text parts.')
  for i, part in enumerate(content):
    text = isinstance(part, dict) and part.get('type') == 'text'
    if not text or not isinstance(part.get('text'), str):
      raise Refused(
        f'{where}.content[{i}]: only parts of the type text are known here.'
      )
  return ''.join(part['text'] for part in content)


def _calls(where: str, given: Any) -> list[Message]:
  if not isinstance(given, list):
    raise Refused(f'{where}: give a list.')
  made = []
  for i, call in enumerate(given):
    function = call.get('function') if isinstance(call, dict) else None
    if not isinstance(function, dict) or call.get('type') != 'function':
      raise Refused(f'{where}[{i}]: give a call of the type function.')
    name, arguments = function.get('name'), function.get('arguments')
    if isinstance(arguments, str):
      arguments = calls.spelled(arguments.strip() or '{}')
    if not isinstance(name, str) or not isinstance(arguments, dict):
      raise Refused(
        f'{where}[{i}].function: give a name, and arguments that are an object'
        ' or the JSON of one.'
      )
    made.append(
      {
        'type': 'function',
        'id': str(call.get('id') or ''),
        'function': {'name': name, 'arguments': arguments},
      }
    )
  return made


def texts(value: Any) -> Iterator[str]:
  """Every string in a message or a tool."""
  if isinstance(value, str):
    yield value
  elif isinstance(value, Mapping):
    for key, inner in value.items():
      yield str(key)
      yield from texts(inner)
  elif isinstance(value, Sequence):
    for inner in value:
      yield from texts(inner)


def identity(message: Message) -> str:
  """What makes a message the same one: role, content and calls, not ids."""
  made = [
    (call['function']['name'], call['function']['arguments'])
    for call in message.get('tool_calls', ())
  ]
  return _digest([message['role'], message['content'], made])


def contexts(messages: Sequence[Message]) -> list[str]:
  """For each message what stands for all before it; then for them all."""
  made = ['']
  for message in messages:
    made.append(_digest([made[-1], identity(message)]))
  return made


def _digest(value: Any) -> str:
  text = json.dumps(value, sort_keys=True, ensure_ascii=True)
  return hashlib.sha256(text.encode()).hexdigest()[:16]
