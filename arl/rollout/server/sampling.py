"""SGLang's sampling parameters, as jobs for an engine."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from arl.rollout import engine, tickets
from arl.rollout.server import fields as server_fields

_LARGEST = 2**31
_SAMPLING = {
  'max_new_tokens', 'min_new_tokens', 'stop', 'stop_token_ids', 'temperature',
  'top_p', 'top_k', 'min_p', 'n', 'ignore_eos', 'skip_special_tokens',
  'no_stop_trim', 'sampling_seed', 'custom_params',
}  # fmt: skip
_SAMPLING_NEUTRAL: Mapping[str, tuple] = {
  'stop_regex': ([],),
  'frequency_penalty': (0,),
  'presence_penalty': (0,),
  'repetition_penalty': (1,),
  'json_schema': (),
  'regex': (),
  'ebnf': (),
  'structural_tag': (),
  'spaces_between_special_tokens': (True,),
  'stream_interval': (),
  'logit_bias': ({},),
  'beam_width': (),
  'watermark': (False,),
  'choice': (),
}


def samples(
  rid: str,
  prompt: tuple[int, ...],
  given: Any,
  shown: server_fields.Shown,
  limits: server_fields.Limits,
  place: tuple[int, ...] = (),
) -> list[server_fields.Job]:
  """The jobs of one prompt: as many as `n` in its sampling parameters.

  Each has randomness of its own: that of `custom_params.path` or of
  `sampling_seed`, with the place in a batch of one seed and the number of the
  sample appended where there are several.
  """
  server_fields.check_known(
    'sampling_params', given, _SAMPLING, _SAMPLING_NEUTRAL
  )
  n = server_fields.take(given, 'n', int, 1)
  if n < 1:
    raise server_fields.Refused(f'n must be at least 1, got {n}.')
  most = _most(given, len(prompt), limits)
  if shown.experts > len(prompt):
    raise server_fields.Refused(
      f'routed_experts_start_len is {shown.experts}; give 0 to {len(prompt)}.'
    )
  sampling, wanted, text = _sampling(given, limits, most)
  sampling = sampling._replace(
    entropy=shown.entropy, experts=shown.experts >= 0
  )
  wanted = wanted._replace(
    top=shown.top, watched=shown.watched or (), kept=shown.mask
  )
  path = _path(given)
  made = []
  for j in range(n):
    more = (*place, *((j,) if n > 1 else ()))
    own = limits.fresh() if path is None else (*path, *more)
    request = engine.Request(prompt, most, own)
    name = f'{rid}_{j}' if n > 1 else rid
    made.append(server_fields.Job(name, request, sampling, wanted, text, shown))
  return made


def _most(given, fed, limits) -> int:
  """How many tokens to sample."""
  room = limits.context - fed
  most = min(128, room)
  if 'max_new_tokens' in given:
    most = server_fields.take(given, 'max_new_tokens', int, room)
  if most < 0:
    raise server_fields.Refused(
      f'max_new_tokens must be at least 0, got {most}.'
    )
  if most > room:
    raise server_fields.Refused(
      "Requested token count exceeds the model's maximum context length of"
      f' {limits.context} tokens. You requested a total of {fed + most} tokens:'
      f' {fed} tokens from the input messages and {most} tokens for the'
      ' completion. Please reduce the number of tokens in the input messages or'
      ' the completion to fit within the limit.'
    )
  return most


def _sampling(given, limits, most):
  temperature = server_fields.take(given, 'temperature', float, 1.0)
  if not (temperature >= 0 and math.isfinite(temperature)):
    raise server_fields.Refused(
      'temperature must be a non-negative finite number, got'
      f' {given["temperature"]}.'
    )
  top_k = server_fields.take(given, 'top_k', int, -1)
  if top_k != -1 and top_k < 1:
    raise server_fields.Refused(
      f'top_k must be -1 (all) or at least 1, got {top_k}.'
    )
  min_p = server_fields.take(given, 'min_p', float, 0.0)
  if not 0 <= min_p <= 1:
    raise server_fields.Refused(f'min_p must be in [0, 1], got {min_p}.')
  least = server_fields.take(given, 'min_new_tokens', int, 0)
  if not 0 <= least <= most:
    raise server_fields.Refused(
      f'min_new_tokens must be in [0, {most}], got {least}.'
    )
  stop = {
    *server_fields.ids(given, 'stop_token_ids', limits.vocab),
    *limits.end,
  }
  if server_fields.take(given, 'ignore_eos', bool, False):
    stop = set()  # as SGLang: those that were asked for as well
  sampling = engine.Sampling(
    temperature=0.0 if temperature < 1e-6 else temperature,
    top_p=server_fields.take(given, 'top_p', float, 1.0),
    top_k=max(top_k, 0),
    stop=tuple(sorted(stop)),
  )
  engine.check_sampling(sampling)
  text = server_fields.Text(
    stop=_strings(given.get('stop'), limits),
    skip=server_fields.take(given, 'skip_special_tokens', bool, True),
    trim=not server_fields.take(given, 'no_stop_trim', bool, False),
  )
  return sampling, tickets.Wanted(min_p=min_p, least=least), text


def _strings(given, limits) -> tuple[str, ...]:
  strings = [given] if isinstance(given, str) else given or []
  if not isinstance(strings, list) or any(
    not isinstance(s, str) or not s for s in strings
  ):
    raise server_fields.Refused(
      f'stop should be text or texts, not {given!r:.80}.'
    )
  if strings and limits.encode is None:
    raise server_fields.Refused(
      'stop: the server runs without a tokenizer; stop at ids.'
    )
  return tuple(strings)


def _path(given) -> tuple[int, ...] | None:
  custom = server_fields.take(given, 'custom_params', dict, {})
  server_fields.check_known('custom_params', custom, {'path'}, {})
  path: Sequence[Any] | None = custom.get('path')
  if path is None:
    seed = server_fields.take(given, 'sampling_seed', int, None)
    path = None if seed is None else [seed]
  if path is None:
    return None
  if not isinstance(path, list) or not all(
    type(i) is int and 0 <= i < _LARGEST for i in path
  ):
    raise server_fields.Refused(
      f'the seed or path is {path!r:.80}; give whole numbers from 0 to'
      f' {_LARGEST - 1}.'
    )
  return tuple(path)
