"""Who an agent of tau2-bench talks to: a script, or a served model.

A user is a function (domain, index of the task, talk, call) -> what it says.
The talk is what user and agent said in turn, the agent last; `call(name,
arguments)` uses one of the user's own tools. Words that hold one of ENDS end
the conversation.
"""

import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx
import tenacity

from arl.envs import base, tau_domains
from arl.rewards import endpoint

STOP = '###STOP###'
ENDS = (STOP, '###TRANSFER###', '###OUT-OF-SCOPE###')
_WORD = re.compile(r'[a-z0-9_]+')
_ROUNDS = 10  # of calls before a served user has to speak
_RULES = f"""\
You are a customer who talks to a support agent. Play the scenario below. Say \
one short message at a time, in your own words, and only what the scenario \
lets you know; tell it bit by bit, as you are asked. What you see of your \
device comes from your tools alone. When what you want is done, or cannot be, \
say {ENDS[0]}. If you are handed to another agent, say {ENDS[1]}. If the \
scenario does not tell you how to go on, say {ENDS[2]}.

"""

Call = Callable[[str, Mapping[str, Any]], str]
User = Callable[[str, int, Sequence[str], Call], str]


def opening(domain: str, index: int) -> str:
  """What the user says first: what it wants."""
  return _told(domain, index)[0]


def _told(domain: str, index: int) -> list[str]:
  """The parts of a scenario, what the user wants first."""
  told = tau_domains.tasks(domain)[index].user_scenario.instructions
  if isinstance(told, str):
    return [told]
  parts = (told.reason_for_call, told.known_info, told.task_instructions)
  return [part for part in parts if part]


def scripted(domain: str, index: int, talk: Sequence[str], call: Call) -> str:
  """Does what it is asked for by name, else tells its scenario part by part.

  Of the calls on its part that solve the task it makes those whose tools the
  agent names, each once, and tells what they gave. When it has told everything,
  then agreed, and is asked for nothing more, it stops. Scores with it are not
  those of tau2-bench, whose users are models.
  """
  lines = [*_told(domain, index)[1:], 'Yes, please go ahead.', STOP]
  due, told = _own(domain, index), 0
  for said in talk[1:-1:2]:
    asked = _asked(due, said)
    due = [action for action in due if action not in asked]
    told += not asked
  if asked := _asked(due, talk[-1]):
    given = [(a.name, call(a.name, a.arguments)) for a in asked]
    return '\n'.join(f'{name}: {answer}' for name, answer in given)
  return lines[min(told, len(lines) - 1)]


def _own(domain: str, index: int) -> list[Any]:
  """The calls on the user's part."""
  actions = tau_domains.actions(domain, index)
  return [a for a in actions if a.requestor == tau_domains.USER]


def _asked(due: Sequence[Any], said: str) -> list[Any]:
  """The first call that is due of each tool that the agent names."""
  first = {action.name: action for action in reversed(due)}
  words = set(_WORD.findall(said.lower()))
  return [a for a in due if first[a.name] is a and a.name in words]


def served(asked: endpoint.Endpoint) -> User:
  """A user that is a model behind an OpenAI-compatible endpoint.

  Raises, when it is asked:
    InfrastructureFailure: the endpoint gives no answer that can be used.
  """
  return functools.partial(_served, asked)


def _served(
  asked: endpoint.Endpoint,
  domain: str,
  index: int,
  talk: Sequence[str],
  call: Call,
) -> str:
  scenario = tau_domains.tasks(domain)[index].user_scenario
  messages: list[dict[str, Any]] = [
    {'role': 'system', 'content': f'{_RULES}{scenario}'},
    {'role': 'user', 'content': 'Hello, how can I help you?'},
  ]
  for place, text in enumerate(talk):
    messages.append({'role': ('assistant', 'user')[place % 2], 'content': text})
  body = {
    'model': asked.model,
    'messages': messages,
    'temperature': 0,
    'max_tokens': asked.max_tokens,
  }
  if tools := tau_domains.tools(domain, tau_domains.USER):
    body['tools'] = [
      {
        'type': 'function',
        'function': {
          'name': tool.name,
          'description': tool.description,
          'parameters': tool.parameters,
        },
      }
      for tool in tools
    ]
  for _ in range(_ROUNDS):
    said = _ask(asked, body)
    messages.append(said)
    if not said.get('tool_calls'):
      return said.get('content') or STOP
    messages += [_called(made, call) for made in said['tool_calls']]
  return STOP


def _called(made: Mapping[str, Any], call: Call) -> dict[str, Any]:
  """What a call of a served user gives it."""
  function = made['function']
  try:
    arguments = json.loads(function['arguments'] or '{}')
  except ValueError:
    arguments = None
  if isinstance(arguments, dict):
    given = call(function['name'], arguments)
  else:
    given = 'error: the arguments are no JSON object'
  return {'role': 'tool', 'tool_call_id': made['id'], 'content': given}


def _ask(asked: endpoint.Endpoint, body: Mapping[str, Any]) -> dict[str, Any]:
  """The message that the model answers with."""
  again = tenacity.Retrying(
    stop=tenacity.stop_after_attempt(asked.tries),
    wait=tenacity.wait_random_exponential(asked.wait, max=60),
    retry=tenacity.retry_if_exception_type(httpx.HTTPError),
    reraise=True,
  )
  try:
    message = again(_post, asked, body)['choices'][0]['message']
  except (
    httpx.HTTPError, httpx.InvalidURL, ValueError, LookupError, TypeError,
  ) as error:  # fmt: skip
    raise base.InfrastructureFailure(
      f'the user of tau at {asked.url} failed: {error!r}.'
    ) from error
  return {
    k: message[k] for k in ('role', 'content', 'tool_calls') if k in message
  }


def _post(asked: endpoint.Endpoint, body: Mapping[str, Any]) -> Any:
  answer = httpx.post(
    asked.url.rstrip('/') + '/chat/completions',
    json=body,
    headers={'Authorization': f'Bearer {asked.key}'} if asked.key else {},
    timeout=asked.seconds,
  )
  answer.raise_for_status()
  return answer.json()
