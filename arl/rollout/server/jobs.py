"""What a /generate asks for."""

import uuid
from collections.abc import Mapping
from typing import Any

from arl.rollout.server import fields as server_fields
from arl.rollout.server import sampling as server_sampling

_USED = {
  'text', 'input_ids', 'rid', 'sampling_params', 'stream', 'return_logprob',
  'logprob_start_len', 'top_logprobs_num', 'token_ids_logprob',
  'return_text_in_logprobs', 'return_prompt_token_ids', 'return_sampling_mask',
  'sampling_logprobs_mode', 'return_routed_experts', 'routed_experts_start_len',
  'return_entropy',
}  # fmt: skip
# Field -> the values beside null that mean nothing.
_NEUTRAL: Mapping[str, tuple] = {
  'input_embeds': (),
  'image_data': (),
  'audio_data': (),
  'video_data': (),
  'return_hidden_states': (False,),
  'return_bytes': (False,),
  'return_flat_raw_top_logprobs': (False,),
  'routed_dp_rank': (0,),
  'data_parallel_rank': (0,),
  'routing_key': (),
  'session_id': (),
  'session_params': (),
  'extra_key': (),
  'cache_salt': (),
  'priority': (),
  'lora_path': (),
  'custom_labels': (),
  'background': (False,),
  'log_metrics': (True, False),
  'no_logs': (True, False),
}


def jobs(
  body: Any, limits: server_fields.Limits
) -> tuple[list[server_fields.Job], bool, bool]:
  """What a /generate asks for.

  Returns:
    The jobs in the order of the answers, whether the answers are a list, and
    whether they are streamed.

  Raises:
    server_fields.Refused: it cannot be served.
  """
  server_fields.check_known('the request', body, _USED, _NEUTRAL)
  prompts, listed = _prompts(body, limits)
  shown = _shown(body, limits)
  given = body.get('sampling_params')
  each = given if isinstance(given, list) else [given] * len(prompts)
  if len(each) != len(prompts):
    raise server_fields.Refused(
      f'{len(each)} sampling_params for {len(prompts)} prompts; give one, or'
      ' one each.'
    )
  rids = _rids(body.get('rid'), len(prompts), listed)
  made: list[server_fields.Job] = []
  for i, (prompt, parameters, rid) in enumerate(zip(prompts, each, rids)):
    alone = isinstance(given, list) or len(prompts) == 1
    made += server_sampling.samples(
      rid,
      prompt,
      parameters or {},
      shown,
      limits,
      place=() if alone else (i,),
    )
  listed = listed or len(made) > 1
  return made, listed, server_fields.take(body, 'stream', bool, False)


def _prompts(body, limits) -> tuple[list[tuple[int, ...]], bool]:
  given = [k for k in ('text', 'input_ids') if body.get(k) is not None]
  if len(given) != 1:
    raise server_fields.Refused(
      'Either text or input_ids should be provided, not both.'
    )
  value = body[given[0]]
  if given == ['text']:
    listed = isinstance(value, list)
    prompts = [
      server_fields.encode(one, limits)
      for one in (value if listed else [value])
    ]
  else:
    listed = isinstance(value, list) and bool(value) and type(value[0]) is list
    each = value if listed else [value]
    prompts = [
      server_fields.id_list('input_ids', one, limits.vocab) for one in each
    ]
  if not prompts:
    raise server_fields.Refused('the batch is empty; give at least one prompt.')
  for prompt in prompts:
    if not 1 <= len(prompt) <= limits.context:
      raise server_fields.Refused(
        f'The input ({len(prompt)} tokens) is empty or longer than the'
        f" model's context length ({limits.context} tokens)."
      )
  return prompts, listed


def _rids(given, count, listed) -> list[str]:
  if given is None:
    return [uuid.uuid4().hex for _ in range(count)]
  if isinstance(given, str):
    return [f'{given}_{i}' for i in range(count)] if listed else [given]
  good = isinstance(given, list) and all(isinstance(r, str) for r in given)
  if not good or len(given) != count:
    raise server_fields.Refused(
      f'rid should be text, or a list of {count} texts.'
    )
  return given


def _shown(body, limits) -> server_fields.Shown:
  watched = body.get('token_ids_logprob')
  start = server_fields.take(body, 'logprob_start_len', int, -1)
  mode = server_fields.take(body, 'sampling_logprobs_mode', str, 'selected')
  if mode != 'selected':
    raise server_fields.Refused(
      f'sampling_logprobs_mode = {mode!r}; only selected is told.'
    )
  top = server_fields.take(body, 'top_logprobs_num', int, 0)
  if not 0 <= top <= limits.vocab:
    raise server_fields.Refused(
      f'top_logprobs_num is {top}; give 0 to {limits.vocab}.'
    )
  experts = server_fields.take(body, 'return_routed_experts', bool, False)
  first = server_fields.take(body, 'routed_experts_start_len', int, 0)
  logprob = server_fields.take(body, 'return_logprob', bool, False)
  return server_fields.Shown(
    logprob=logprob,
    start=start if logprob else -1,
    top=top if logprob else 0,
    watched=None
    if watched is None or not logprob
    else server_fields.id_list('token_ids_logprob', watched, limits.vocab),
    text=server_fields.take(body, 'return_text_in_logprobs', bool, False),
    prompt=server_fields.take(body, 'return_prompt_token_ids', bool, False),
    mask=server_fields.take(body, 'return_sampling_mask', bool, False),
    experts=first if experts else -1,
    entropy=server_fields.take(body, 'return_entropy', bool, False),
  )
