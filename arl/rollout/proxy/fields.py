"""The fields of an OpenAI request: read, held to the settings, or refused.

A field that changes what is sampled, and is not known, would be trained on as
if it had not been there. So every field is read, or has to have the value that
means nothing, or is refused by its name.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from arl.envs import calls
from arl.rollout import engine as engine_lib
from arl.rollout import messages as messages_lib

Refused = messages_lib.Refused

_CHAT = frozenset(
  {
    'messages', 'tools', 'tool_choice', 'max_completion_tokens', 'logprobs',
    'top_logprobs',
  }
)  # fmt: skip
_TEXT = frozenset({'prompt', 'logprobs', 'echo', 'best_of', 'suffix'})
_BOTH = frozenset(
  {
    'model', 'stream', 'stream_options', 'n', 'stop', 'max_tokens',
    'temperature', 'top_p', 'top_k', 'seed',
  }
)  # fmt: skip
# Field -> the values that mean nothing, beside null.
_ANY: tuple = ()  # it only says who asks
_NEUTRAL: Mapping[str, tuple] = {
  'user': _ANY,
  'safety_identifier': _ANY,
  'prompt_cache_key': _ANY,
  'metadata': _ANY,
  'store': (False,),
  'parallel_tool_calls': (True,),
  'response_format': ({'type': 'text'},),
  'modalities': (['text'],),
  'service_tier': ('auto', 'default'),
  'frequency_penalty': (0,),
  'presence_penalty': (0,),
  'repetition_penalty': (1,),
  'min_p': (0,),
  'logit_bias': ({},),
  'functions': ([],),
  'function_call': ('auto', 'none'),
  'chat_template_kwargs': ({},),
  **dict.fromkeys(
    ('audio', 'prediction', 'reasoning_effort', 'verbosity',
     'web_search_options'), (None,),
  ),
}  # fmt: skip
_SEEDS = 2**31  # randomness is folded from 31 bits


class Asked(NamedTuple):
  """What a request asks for.

  Attributes:
    messages: of a chat; empty for a completion.
    prompt: of a completion, text or ids; None for a chat.
    tools: as they were given; none where calls are switched off.
    n: samples.
    stop: texts that end a sample.
    max_tokens: of one sample; None for as many as there are.
    seed: of the randomness; None for that of the rollout.
    logprobs: whether the answer tells log-probs.
    stream: whether it comes in pieces; usage: whether these end with a count.
  """

  messages: list[messages_lib.Message]
  prompt: str | list[int] | None
  tools: list[dict[str, Any]]
  n: int
  stop: tuple[str, ...]
  max_tokens: int | None
  seed: int | None
  logprobs: bool
  stream: bool
  usage: bool


def chat(body: Any, sampling: engine_lib.Sampling) -> Asked:
  """Reads a chat completion request.

  Raises:
    Refused: naming the field.
  """
  _check_known(body, _CHAT | _BOTH, _NEUTRAL)
  most = [body.get('max_tokens'), body.get('max_completion_tokens')]
  _need(body, 'top_logprobs', body.get('top_logprobs') in (None, 0), 'give 0')
  return _common(body, sampling, [m for m in most if m is not None])._replace(
    messages=messages_lib.read(body.get('messages')),
    tools=_tools(body),
    logprobs=_flag(body, 'logprobs'),
  )


def completion(body: Any, sampling: engine_lib.Sampling) -> Asked:
  """Reads a completion request; its prompt is a text or a list of ids.

  Raises:
    Refused: naming the field.
  """
  _check_known(body, _TEXT | _BOTH, _NEUTRAL)
  _need(body, 'echo', body.get('echo') in (None, False), 'give false')
  _need(body, 'suffix', body.get('suffix') in (None, ''), 'leave it out')
  _need(body, 'best_of', body.get('best_of') in (None, 1), 'give 1')
  _need(
    body,
    'logprobs',
    body.get('logprobs') in (None, 0),
    'give 0 for those of what is sampled, or null',
  )
  prompt = body.get('prompt')
  ids = isinstance(prompt, list) and all(type(i) is int for i in prompt)
  _need(
    body,
    'prompt',
    bool(prompt) and (ids or isinstance(prompt, str)),
    'give one text, or one list of ids',
  )
  most = [m for m in [body.get('max_tokens', 16)] if m is not None]
  told = body.get('logprobs') is not None
  return _common(body, sampling, most)._replace(prompt=prompt, logprobs=told)


def _common(body, sampling: engine_lib.Sampling, most: list) -> Asked:
  for name in ('temperature', 'top_p', 'top_k'):
    _check_same(body, name, getattr(sampling, name))
  for name in ('max_tokens', 'max_completion_tokens'):
    value = body.get(name)
    good = value is None or (type(value) is int and value >= 1)
    _need(body, name, good, 'give 1 or more')
  n, seed, stop = body.get('n'), body.get('seed'), body.get('stop')
  _need(body, 'n', n is None or (type(n) is int and n >= 1), 'give 1 or more')
  _need(body, 'seed', seed is None or type(seed) is int, 'give an integer')
  stop = [stop] if isinstance(stop, str) else stop or []
  texts = isinstance(stop, list) and all(isinstance(s, str) and s for s in stop)
  _need(body, 'stop', texts, 'give a text, or a list of texts')
  options = body.get('stream_options') or {}
  known = isinstance(options, dict) and not options.keys() - {'include_usage'}
  _need(body, 'stream_options', known, 'only include_usage is known')
  return Asked(
    messages=[],
    prompt=None,
    tools=[],
    n=n or 1,
    stop=tuple(stop),
    max_tokens=min(most) if most else None,
    seed=None if seed is None else seed % _SEEDS,
    logprobs=False,
    stream=_flag(body, 'stream'),
    usage=bool(options.get('include_usage')),
  )


def _check_known(body, known, neutral) -> None:
  if not isinstance(body, dict):
    raise Refused('the body of the request is a JSON object.')
  for key, value in body.items():
    if key in known or value is None:
      continue
    if key not in neutral:
      raise Refused(f'{key}: there is no such field here; leave it out.')
    if neutral[key] and value not in neutral[key]:
      raise Refused(
        f'{key} is {value!r}, which is not done here; leave it out.'
      )


def _check_same(body, name: str, configured: float) -> None:
  """Refuses a number that differs from what the operator set."""
  value = body.get(name)
  if value is None or (name == 'top_k' and value == -1 and not configured):
    return
  number = isinstance(value, int | float) and not isinstance(value, bool)
  if not number or not math.isclose(value, configured, abs_tol=1e-9):
    raise Refused(
      f'{name} is {value!r}, but this proxy samples with {configured}, as the'
      ' trainer does; leave it out, or start the proxy with that value.'
    )


def _need(body, name: str, good: bool, fix: str) -> None:
  if not good:
    raise Refused(f'{name} is {body.get(name)!r}; {fix}.')


def _flag(body, name: str) -> bool:
  value = body.get(name)
  _need(body, name, value is None or isinstance(value, bool), 'give a boolean')
  return bool(value)


def _tools(body) -> list[dict[str, Any]]:
  choice, tools = body.get('tool_choice'), body.get('tools') or []
  _need(
    body,
    'tool_choice',
    choice in (None, 'auto', 'none'),
    "give 'auto' or 'none': a policy cannot be made to call",
  )
  for i, tool in enumerate(tools if isinstance(tools, list) else [tools]):
    tool = tool if isinstance(tool, dict) else {}
    function = tool.get('function')
    named = isinstance(function, dict) and isinstance(function.get('name'), str)
    if not named or tool.get('type') != 'function':
      raise Refused(f'tools[{i}]: give a function with a name.')
  return [] if choice == 'none' else tools


def as_tools(tools: list[dict[str, Any]]) -> list[calls.Tool]:
  """The tools of a request as those that calls are read with."""

  def none(**arguments):
    raise NotImplementedError('the agent runs its tools itself')

  return [
    calls.Tool(
      tool['function']['name'],
      tool['function'].get('description') or '',
      tool['function'].get('parameters') or {'type': 'object'},
      none,
    )
    for tool in tools
  ]
