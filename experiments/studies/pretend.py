"""A server that speaks as SGLang does, of a model that is a formula.

What it samples depends on the prompt and the seed alone, so that whoever asked
knows what should come back. It keeps the contract of /generate and of the calls
that control a server, as far as arl uses them, with SGLang's own surprises:
unknown names of tensors succeed, and what was computed before an update is used
after it unless it was told to forget.
"""

import asyncio
import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from safetensors import numpy as safetensors

from experiments.studies import faulty

VOCAB, CONTEXT, LAYERS, CHOSEN = 64, 512, 2, 2
_WEIGHT = 'model.norm.weight'  # of which the first number is the whole model


def continuation(
  ids: Sequence[int], seed: int, most: int, stop: Sequence[int]
) -> list[int]:
  """The tokens that follow a prompt."""
  rng = np.random.default_rng([seed, *ids])
  tokens = rng.integers(0, VOCAB, most).tolist()
  ends = [i for i, token in enumerate(tokens) if token in stop]
  return tokens[: ends[0] + 1] if ends else tokens


def logp(weight: float, ids: Sequence[int]) -> list[float]:
  """The log-probs of tokens, whatever came before them."""
  return [-1 - abs(weight) - (i % 5) / 10 for i in ids]


class Pretend:
  """The state of such a server.

  Attributes:
    weight: what the log-probs depend on.
    version: of the weights.
    pace: seconds that a token takes.
    running: names of the requests under way.
    computed: how often each (prompt, seed) was answered.
    calls: (path, body) of what was asked for, in order.
    twist: changes an answer before it is sent.
  """

  def __init__(self, *, version: str = '0', pace: float = 0.0, **server: Any):
    self.weight, self.version, self.pace = 0.0, version, pace
    self.server = {'version': '0.5.23', 'tp_size': 1, **server}
    self.server.setdefault('enable_deterministic_inference', True)
    self.running: dict[str, asyncio.Event] = {}
    self.computed: dict[tuple, int] = {}
    self.calls: list[tuple[str, dict[str, Any]]] = []
    self.twist = lambda body, answer: answer
    self.held: asyncio.Event | None = None
    self.cache: set[tuple] = set()

  async def respond(self, path: str, body: faulty.Body) -> faulty.Answer:
    """Answers as SGLang does."""
    body = body or {}
    self.calls.append((path, body))
    if path == '/generate':
      return await self._generate(body)
    known = getattr(self, '_' + path.strip('/').replace('/', '_'), None)
    if known is None:
      return _json({'detail': 'Not Found'}, 404)
    return _json(known(body))

  def _model_info(self, body):
    return {'weight_version': self.version, 'model_path': ''}

  def _server_info(self, body):
    return self.server

  def _v1_models(self, body):
    return {'data': [{'id': 'x', 'max_model_len': CONTEXT}]}

  def _abort_request(self, body):
    for rid, stopped in self.running.items():
      if body.get('abort_all') or rid.startswith(body['rid']):
        stopped.set()
    return {}

  def _pause_generation(self, body):
    self.held = asyncio.Event()
    if body['mode'] == 'abort':
      self._abort_request({'abort_all': True})
    return {'status': 'ok'}

  def _continue_generation(self, body):
    if self.held is not None:
      self.held.set()
    self.held = None
    return {'status': 'ok'}

  def _flush_cache(self, body):
    self.cache.clear()
    return {}

  def _update_weights_from_disk(self, body):
    read = safetensors.load_file(f'{body["model_path"]}/model.safetensors')
    if _WEIGHT in read:  # the names of others are passed over
      self.weight = float(read[_WEIGHT].flat[0])
    return self._updated(body)

  def _begin_weight_update(self, body):
    return {'success': True}

  def _end_weight_update(self, body):
    return {'success': True}

  def _update_weights_from_tensor(self, body):
    return self._updated(body)

  def _updated(self, body):
    self.version = body['weight_version']
    if body['flush_cache']:
      self.cache.clear()
    return {'success': True, 'message': 'Success'}

  async def _generate(self, body) -> faulty.Answer:
    if body['rid'] in self.running:
      message = f'Duplicate request ID detected: {body["rid"]}'
      return _json({'error': {'message': message}}, 400)
    if body.get('stream'):
      return faulty.Answer(200, self._stream(body))
    answers = [answer async for answer in self._grow(body)]
    return _json(self.twist(body, answers[-1]))

  async def _stream(self, body):
    async for answer in self._grow(body):
      done = answer['meta_info']['finish_reason'] is not None
      sent = self.twist(body, answer) if done else answer
      yield f'data: {json.dumps(sent)}\n\n'.encode()
    yield b'data: [DONE]\n\n'

  async def _grow(self, body):
    """The answer after each token; the last one tells how it finished."""
    how = body['sampling_params']
    key = (tuple(body['input_ids']), how.get('sampling_seed', 0))
    most, stop = how['max_new_tokens'], how.get('stop_token_ids', ())
    wanted = continuation(*key, most, stop)
    stopped = self.running[body['rid']] = asyncio.Event()
    tokens: list[int] = []
    versions: list[str] = []
    try:
      for token in wanted:
        if self.held is not None and not stopped.is_set():
          await self.held.wait()
        if self.pace:
          await asyncio.sleep(self.pace)
        if stopped.is_set():
          break
        tokens.append(token)
        versions.append(self.version)
        if len(tokens) < len(wanted):
          yield self._told(body, tokens, versions, None)
      whole = len(tokens) == len(wanted)
      if whole:
        self.computed[key] = self.computed.get(key, 0) + 1
      yield self._told(body, tokens, versions, _finish(tokens, stop, whole))
    finally:
      del self.running[body['rid']]

  def _told(self, body, tokens, versions, finish) -> dict[str, Any]:
    ids, how = body['input_ids'], body['sampling_params']
    salted, cached = (body.get('extra_key'), *ids), 0
    if finish:
      cached = len(ids) - 1 if salted in self.cache else 0
      self.cache.add(salted)
    entries = zip(logp(self.weight, tokens), tokens)
    meta: dict[str, Any] = {
      'id': body['rid'],
      'finish_reason': finish,
      'prompt_tokens': len(ids),
      'completion_tokens': len(tokens),
      'cached_tokens': 0 if 'logprob_start_len' in body else cached,
      'weight_version': self.version,
      'output_token_logprobs': [[x, i, None] for x, i in entries],
      'output_token_logprobs_length': len(tokens),
      'input_token_logprobs': [],
    }
    if finish:
      meta['weight_versions'] = _spans(versions, self.version)
    if 'logprob_start_len' in body:
      shown = [0 if i == VOCAB - 1 else i for i in ids]
      scores = [None, *logp(self.weight, ids)[1:]]
      meta['input_token_logprobs'] = [
        [x, i, None] for x, i in zip(scores, shown)
      ]
    if body.get('return_routed_experts') and self.server.get('experts'):
      count = (len(ids) + len(tokens) - 1) * LAYERS * CHOSEN
      chosen = np.arange(count, dtype='<i4') % 4
      meta['routed_experts'] = base64.b64encode(chosen.tobytes()).decode()
    if 'top_logprobs_num' in body:
      by = how['temperature'] if self.server.get('scaled', True) else 1
      meta['output_top_logprobs'] = [[[-1 / by, 1, None], [-2 / by, 2, None]]]
    return {'text': '?', 'output_ids': list(tokens), 'meta_info': meta}


def _finish(tokens, stop, whole: bool) -> dict[str, Any]:
  if not whole:
    return {'type': 'abort', 'message': 'Aborted', 'status_code': None}
  if tokens and tokens[-1] in stop:
    return {'type': 'stop', 'matched': tokens[-1]}
  return {'type': 'length', 'length': len(tokens)}


def _spans(versions: Sequence[str], last: str) -> list[dict[str, Any]]:
  spans: list[dict[str, Any]] = []
  for i, version in enumerate(versions):
    if not spans or spans[-1]['version'] != version:
      spans.append({'version': version, 'start': i, 'end': i})
    spans[-1]['end'] = i + 1
  return spans or [{'version': last, 'start': 0, 'end': 0}]


def _json(body: Any, status: int = 200) -> faulty.Answer:
  return faulty.Answer(status, json.dumps(body).encode())
