"""OpenAI requests as jobs: chats by the template, completions as they are."""

import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from arl.rollout.server import fields as server_fields
from arl.rollout.server import sampling as server_sampling
from arl.rollout.server import state as server_state


class Kind(NamedTuple):
  """An endpoint.

  Attributes:
    object: what a whole answer calls itself.
    piece: what a piece of a stream calls itself.
    ids: the field of the sampled ids.
    used: the fields that only it reads.
    neutral: the fields that only it knows, with the values that mean nothing.
  """

  object: str
  piece: str
  ids: str
  used: frozenset[str]
  neutral: Mapping[str, tuple]


CHAT = Kind(
  'chat.completion',
  'chat.completion.chunk',
  'response_token_ids',
  frozenset(
    {
      'messages', 'tools', 'tool_choice', 'max_completion_tokens',
      'top_logprobs', 'input_ids', 'chat_template_kwargs',
    }
  ),
  {
    'parallel_tool_calls': (True,),
    'continue_final_message': (False,),
    'separate_reasoning': (True, False),
    'stream_reasoning': (True, False),
    'functions': ([],),
    'function_call': ('auto', 'none'),
    'modalities': (['text'],),
  },
)  # fmt: skip
TEXT = Kind(
  'text_completion',
  'text_completion',
  'token_ids',
  frozenset({'prompt'}),
  {'echo': (False,), 'best_of': (1,), 'suffix': ('',)},
)
# Ours, and SGLang's name for it.
_SAMPLING = {
  'temperature': 'temperature', 'top_p': 'top_p', 'top_k': 'top_k',
  'min_p': 'min_p', 'stop': 'stop', 'stop_token_ids': 'stop_token_ids',
  'ignore_eos': 'ignore_eos', 'n': 'n', 'seed': 'sampling_seed',
  'min_tokens': 'min_new_tokens', 'skip_special_tokens': 'skip_special_tokens',
  'no_stop_trim': 'no_stop_trim', 'custom_params': 'custom_params',
}  # fmt: skip
_USED = {
  'model', 'stream', 'stream_options', 'max_tokens', 'logprobs', 'rid',
  'return_token_ids', 'return_prompt_token_ids', 'return_meta_info',
  'return_routed_experts', *_SAMPLING,
}  # fmt: skip
_ANY = (True, False)
_NEUTRAL: Mapping[str, tuple] = {
  'frequency_penalty': (0,),
  'presence_penalty': (0,),
  'repetition_penalty': (1,),
  'logit_bias': ({},),
  'response_format': ({'type': 'text'},),
  'store': (False,),
  'service_tier': ('auto', 'default'),
  'return_hidden_states': (False,),
  'spaces_between_special_tokens': (True,),
  'log_metrics': _ANY,
}
_LABELS = ('user', 'metadata', 'safety_identifier', 'prompt_cache_key')


class Call(NamedTuple):
  """An OpenAI request.

  Attributes:
    kind: the endpoint.
    id: of the answer.
    model: as the request calls it.
    jobs: what to sample, one a choice.
    stream: whether to answer in pieces.
    usage: whether a stream ends with what was used.
    ids: whether the sampled ids are told.
    prompt: whether the ids of the prompt are.
    meta: whether the meta_info of /generate is.
    logprobs: whether log-probs are told.
  """

  kind: Kind
  id: str
  model: str
  jobs: list[server_fields.Job]
  stream: bool
  usage: bool
  ids: bool
  prompt: bool
  meta: bool
  logprobs: bool


def read(serving: server_state.Serving, body: Any, kind: Kind) -> Call:
  """Reads a request.

  Raises:
    Refused: it cannot be served.
  """
  labels = {k: v for k, v in (body or {}).items() if k not in _LABELS}
  neutral = {**_NEUTRAL, **kind.neutral}
  server_fields.check_known('the request', labels, _USED | kind.used, neutral)
  take = server_fields.take
  flag = lambda name: take(body, name, bool, False)
  rid = take(body, 'rid', str, uuid.uuid4().hex)
  logprobs, top = _logprobs(body, kind)
  if logprobs and serving.limits.encode is None:
    raise server_fields.Refused('logprobs: the server runs without tokenizer.')
  shown = server_fields.Shown(
    logprob=logprobs,
    top=top,
    experts=0 if flag('return_routed_experts') else -1,
  )
  jobs: list[server_fields.Job] = []
  prompts = _prompts(serving, body, kind)
  for i, prompt in enumerate(prompts):
    given = _sampling(body, kind, prompt, serving.limits.context)
    alone = len(prompts) == 1
    jobs += server_sampling.samples(
      rid if alone else f'{rid}_{i}',
      prompt,
      given,
      shown,
      serving.limits,
      place=() if alone else (i,),
    )
  options = take(body, 'stream_options', dict, {})
  server_fields.check_known('stream_options', options, {'include_usage'}, {})
  ids = flag('return_token_ids')
  return Call(
    kind,
    rid,
    take(body, 'model', str, serving.model.folder),
    jobs,
    stream=flag('stream'),
    usage=bool(options.get('include_usage')),
    ids=ids,
    prompt=ids or flag('return_prompt_token_ids'),
    meta=flag('return_meta_info'),
    logprobs=logprobs,
  )


def _logprobs(body, kind) -> tuple[bool, int]:
  if kind is TEXT:
    top = server_fields.take(body, 'logprobs', int, None)
    return top is not None, top or 0
  told = server_fields.take(body, 'logprobs', bool, False)
  top = server_fields.take(body, 'top_logprobs', int, 0)
  return told, top if told else 0


def _sampling(body, kind, prompt, context) -> dict[str, Any]:
  """SGLang's sampling parameters for a prompt."""
  given = {
    name: body[ours]
    for ours, name in _SAMPLING.items()
    if body.get(ours) is not None
  }
  if body.get('stop') is None:
    given.pop('stop', None)
  most = server_fields.take(body, 'max_tokens', int, None)
  if kind is CHAT:
    most = server_fields.take(body, 'max_completion_tokens', int, most)
  default = context - len(prompt) if kind is CHAT else 16
  given['max_new_tokens'] = default if most is None else most
  return given


def _prompts(serving, body, kind) -> list[tuple[int, ...]]:
  limits = serving.limits
  if kind is CHAT:
    prompts = [_chat(serving, body)]
  else:
    value = body.get('prompt')
    listed = isinstance(value, list) and bool(value)
    several = listed and type(value[0]) in (str, list)
    prompts = [
      server_fields.id_list('prompt', each, limits.vocab)
      if isinstance(each, list)
      else server_fields.encode(each, limits)
      for each in (value if several else [value])
    ]
  for prompt in prompts:
    if not 1 <= len(prompt) < limits.context:
      raise server_fields.Refused(
        f'The input ({len(prompt)} tokens) is empty or longer than the'
        f" model's context length ({limits.context} tokens)."
      )
  return prompts


def _chat(serving, body) -> tuple[int, ...]:
  """The ids of a conversation: those given, or the template's."""
  messages = body.get('messages')
  if not isinstance(messages, list) or not messages:
    raise server_fields.Refused('messages should be a list of at least one.')
  if body.get('input_ids') is not None:
    return server_fields.ids(body, 'input_ids', serving.limits.vocab)
  tokenizer = serving.model.tokenizer
  if tokenizer is None or not tokenizer.chat_template:
    raise server_fields.Refused(
      'the server has no chat template; send input_ids, or serve a model with'
      ' a tokenizer that has one.'
    )
  choice = server_fields.take(body, 'tool_choice', str, 'auto')
  if choice not in ('auto', 'none'):
    raise server_fields.Refused(
      f'tool_choice is {choice!r}; give auto or none.'
    )
  tools = server_fields.take(body, 'tools', list, None)
  extra = server_fields.take(body, 'chat_template_kwargs', dict, {})
  try:
    text = tokenizer.apply_chat_template(
      [_message(m) for m in messages],
      tools=tools if choice == 'auto' else None,
      tokenize=False,
      add_generation_prompt=True,
      **extra,
    )
    return tuple(tokenizer.encode(text, add_special_tokens=False))
  except server_fields.Refused:
    raise
  except Exception as error:
    raise server_fields.Refused(
      f'the chat template or the tokenizer refuses the messages: {error}'
    ) from error


def _message(message: Any) -> dict[str, Any]:
  """A message whose content is text."""
  if not isinstance(message, dict) or not isinstance(message.get('role'), str):
    raise server_fields.Refused(f'a message needs a role: {message!r:.80}.')
  content = message.get('content')
  if isinstance(content, list):
    if any(p.get('type') != 'text' for p in content):
      raise server_fields.Refused('content: only parts of type text are read.')
    content = ''.join(part['text'] for part in content)
  return {**message, 'content': content or ''}
