"""Control of an embedded server: weights, pauses, caches and what it says of
itself, each as SGLang's endpoint of that name.
"""

import asyncio
import datetime
import hashlib
import importlib.metadata
import json
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from starlette import responses

from arl.rollout import chat, engine
from arl.rollout.server import fields as server_fields
from arl.rollout.server import state as server_state

_WAIT = 60.0  # seconds that a health check waits for a token
_BY_DISK = (
  'this server takes weights from a folder only: save one and call'
  ' /update_weights_from_disk.'
)


def _take(body, used: set[str], neutral: Mapping[str, tuple]) -> dict[str, Any]:
  given = {} if body is None else body
  server_fields.check_known('the request', given, used, neutral)
  return given


def model_info(serving: server_state.Serving) -> dict[str, Any]:
  """GET /model_info."""
  model = serving.model
  return {
    'model_path': model.folder,
    'served_model_name': model.folder,
    'tokenizer_path': None if model.tokenizer is None else model.folder,
    'is_generation': True,
    'preferred_sampling_params': None,
    'weight_version': serving.version,
    'load_format': 'auto',
    'reasoning_parser': None,
    'tool_call_parser': None,
    'has_image_understanding': False,
    'has_audio_understanding': False,
    'model_type': model.family,
  }


def server_info(serving: server_state.Serving) -> dict[str, Any]:
  """GET /server_info; `engine` is 'arl'."""
  limits, model = serving.limits, serving.model
  layers, chosen = serving.engine.model.experts
  return {
    'engine': 'arl',
    'version': importlib.metadata.version('arl'),
    'model_path': model.folder,
    'skip_tokenizer_init': model.tokenizer is None,
    'vocab_size': limits.vocab,
    'context_length': limits.context,
    'eos_token_ids': list(limits.end),
    'tokenizer_digest': model.tokenizer and chat.digest(model.tokenizer),
    'max_running_requests': serving.engine.load()['slots'],
    'num_hidden_layers_with_experts': layers,
    'num_experts_per_tok': chosen,
    'enable_deterministic_inference': True,
    'incremental_streaming_output': False,
    'tp_size': 1,
    'dp_size': 1,
    'startup_time': serving.started,
  }


def models(serving: server_state.Serving) -> dict[str, Any]:
  """GET /v1/models."""
  folder = serving.model.folder
  card = {
    'id': folder,
    'object': 'model',
    'created': int(serving.started),
    'owned_by': 'arl',
    'root': folder,
    'parent': None,
    'max_model_len': serving.limits.context,
  }
  return {'object': 'list', 'data': [card]}


def loads(serving: server_state.Serving) -> dict[str, Any]:
  """GET /v1/loads."""
  load = serving.engine.load()
  most = load['slots'] * serving.limits.context
  seen = load['fed'] + load['cached']
  one = {
    'dp_rank': 0,
    'num_running_reqs': load['running'],
    'num_waiting_reqs': load['waiting'],
    'num_used_tokens': load['held'],
    'max_total_num_tokens': most,
    'max_running_requests': load['slots'],
    'token_usage': load['held'] / most,
    'cache_hit_rate': load['cached'] / seen if seen else 0.0,
  }
  now = datetime.datetime.now(datetime.UTC).isoformat()
  return {
    'timestamp': now,
    'version': importlib.metadata.version('arl'),
    'loads': [one],
  }


async def health(serving: server_state.Serving) -> int:
  """GET /health_generate: 200 if a token can be sampled."""
  if serving.engine.paused:
    return 503
  request = engine.Request((0,), 1, serving.limits.fresh())
  made = serving.engine.sample(request, engine.Sampling(temperature=0.0))
  try:
    await asyncio.wait_for(made, _WAIT)
  except (TimeoutError, RuntimeError, ValueError):
    return 503
  return 200


async def flush(serving: server_state.Serving) -> responses.Response:
  """/flush_cache."""
  if await asyncio.wrap_future(serving.engine.flush()):
    return responses.PlainTextResponse('Cache flushed.\n')
  return responses.PlainTextResponse('Flush cache failed.\n', 400)


def abort(serving: server_state.Serving, body: Any) -> None:
  """/abort_request."""
  given = _take(body, {'rid', 'abort_all'}, {'abort_message': ()})
  rid = server_fields.take(given, 'rid', str, '')
  if server_fields.take(given, 'abort_all', bool, False):
    serving.abort(None)
  elif not rid:
    raise server_fields.Refused('abort_request: give a rid, or abort_all.')
  else:
    serving.abort(rid)


async def pause(serving: server_state.Serving, body: Any) -> dict[str, Any]:
  """/pause_generation."""
  mode = server_fields.take(_take(body, {'mode'}, {}), 'mode', str, 'abort')
  if mode not in engine.PAUSES:
    raise server_fields.Refused(
      f'mode is {mode!r}; give one of {engine.PAUSES}.'
    )
  await asyncio.wrap_future(serving.engine.pause(mode))
  return {'message': 'Generation paused successfully.', 'status': 'ok'}


async def resume(serving: server_state.Serving, body: Any) -> dict[str, Any]:
  """/continue_generation."""
  _take(body, set(), {'torch_empty_cache': (True, False)})
  await asyncio.wrap_future(serving.engine.resume())
  return {'message': 'Generation continued successfully.', 'status': 'ok'}


async def from_disk(
  serving: server_state.Serving, body: Any
) -> responses.Response:
  """/update_weights_from_disk; what does not fit leaves the weights as they
  are. What was computed with old ones is never continued, flushed or not.
  """
  given = _take(
    body,
    {'model_path', 'weight_version', 'abort_all_requests', 'flush_cache'},
    {
      'load_format': ('auto', 'safetensors'),
      'keep_pause': (False,),
      'is_async': (False,),
      'torch_empty_cache': (True, False),
      'recapture_cuda_graph': (False,),
      'token_step': (0,),
      'manifest': (),
    },
  )
  folder = server_fields.take(given, 'model_path', str, None)
  if not folder:
    raise server_fields.Refused('model_path is missing; give a folder.')
  name = server_fields.take(given, 'weight_version', str, None)
  abort_all = server_fields.take(given, 'abort_all_requests', bool, False)
  server_fields.take(given, 'flush_cache', bool, True)
  async with serving.updating:
    try:
      params = await asyncio.to_thread(serving.model.load, folder)
    except (ValueError, OSError) as error:
      return responses.JSONResponse(
        {'success': False, 'message': f'{error}', 'num_paused_requests': 0}, 400
      )
    if abort_all:
      serving.engine.abort(None)
    held = serving.engine.load()['running'] if serving.engine.paused else 0
    await serving.update(params, name)
    serving.model = serving.model._replace(folder=folder)
  message = 'Succeeded to update model weights.'
  if name is not None:
    message += f' Weight version updated to {name}.'
  return responses.JSONResponse(
    {'success': True, 'message': message, 'num_paused_requests': held}
  )


async def rename(serving: server_state.Serving, body: Any) -> dict[str, Any]:
  """/update_weight_version."""
  given = _take(body, {'new_version', 'abort_all_requests'}, {})
  name = server_fields.take(given, 'new_version', str, None)
  if name is None:
    raise server_fields.Refused('new_version is missing.')
  if server_fields.take(given, 'abort_all_requests', bool, True):
    serving.engine.abort(None)
  async with serving.updating:
    await serving.update(serving.model.params, name)
  message = f'Weight version updated to {name}'
  return {'success': True, 'message': message, 'new_version': name}


def by_value(serving: server_state.Serving, body: Any) -> responses.Response:
  """/begin_weight_update and its kin, which are refused."""
  return responses.JSONResponse({'success': False, 'message': _BY_DISK}, 400)


async def checker(serving: server_state.Serving, body: Any) -> dict[str, Any]:
  """/weights_checker: a checksum of each array by its name in arl."""
  given = _take(
    body, {'action'}, {'skip_tensor_list': (), 'selector': ('all',)}
  )
  action = server_fields.take(given, 'action', str, '')
  if action != 'checksum':
    raise server_fields.Refused(f'action is {action!r}; only checksum is done.')
  sums = await asyncio.to_thread(checksums, serving.model.params)
  whole = hashlib.sha256(json.dumps(sums).encode()).hexdigest()[:16]
  return {
    'success': True,
    'message': 'Success.',
    'ranks': [{'checksums': sums}],
    'per_engine_checksum': whole,
  }


def checksums(params: Any) -> dict[str, str]:
  """The first 16 digits of the SHA-256 of each array's bytes, by its path."""
  leaves = jax.tree_util.tree_leaves_with_path(jax.device_get(params))
  key = lambda path: jax.tree_util.keystr(path, simple=True, separator='.')
  return {
    key(path): hashlib.sha256(np.ascontiguousarray(leaf).tobytes()).hexdigest()[
      :16
    ]
    for path, leaf in leaves
  }


def tokenize(serving: server_state.Serving, body: Any) -> dict[str, Any]:
  """/tokenize."""
  given = _take(body, {'prompt'}, {'model': ()})
  found = list(server_fields.encode(given.get('prompt'), serving.limits))
  most = serving.limits.context
  return {'tokens': found, 'count': len(found), 'max_model_len': most}
