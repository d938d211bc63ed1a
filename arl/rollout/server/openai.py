"""OpenAI's answers: choices, pieces of a stream, log-probs and usage."""

import contextlib
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from arl.rollout.server import answers as server_answers
from arl.rollout.server import fields as server_fields
from arl.rollout.server import meta as server_meta
from arl.rollout.server import openai_fields as server_openai_fields
from arl.rollout.server import state as server_state

_BROKEN = '\ufffd'  # the beginning of a character whose rest is to come


def _token(serving, entry) -> dict[str, Any]:
  logp, id = entry[:2]
  text = serving.text([id], False)
  return {'token': text, 'bytes': list(text.encode()), 'logprob': logp}


def _logprobs(serving, call, meta, start) -> dict[str, Any] | None:
  """The log-probs of tokens from `start` on."""
  if not call.logprobs:
    return None
  entries = meta['output_token_logprobs'][start:]
  tops = meta.get('output_top_logprobs', [[]] * (start + len(entries)))[start:]
  tokens = [_token(serving, entry) for entry in entries]
  best = [[_token(serving, entry) for entry in top] for top in tops]
  if call.kind is server_openai_fields.CHAT:
    return {
      'content': [
        {**token, 'top_logprobs': top} for token, top in zip(tokens, best)
      ]
    }
  return {
    'tokens': [token['token'] for token in tokens],
    'token_logprobs': [token['logprob'] for token in tokens],
    'top_logprobs': [{t['token']: t['logprob'] for t in top} for top in best],
    'text_offset': [-1] * len(tokens),
  }


def _ends(call, job, made) -> dict[str, Any]:
  """The fields of a choice that has ended."""
  meta = made['meta_info']
  ended = meta['finish_reason']
  fields: dict[str, Any] = {
    'finish_reason': ended['type'],
    'matched_stop': ended.get('matched'),
  }
  if call.prompt:
    fields['prompt_token_ids'] = list(job.request.tokens)
  if call.ids:
    fields[call.kind.ids] = made['output_ids']
  if call.meta or 'routed_experts' in meta:
    fields['meta_info'] = meta
  return fields


def _usage(call, metas) -> dict[str, Any]:
  """What was used; the prompt of several choices counts once."""
  once = {job.request.tokens: m['prompt_tokens'] for job, m in metas}
  fed = sum(once.values())
  made = sum(m['completion_tokens'] for _, m in metas)
  cached = sum(m['cached_tokens'] for _, m in metas)
  return {
    'prompt_tokens': fed,
    'total_tokens': fed + made,
    'completion_tokens': made,
    'prompt_tokens_details': {'cached_tokens': cached},
    'reasoning_tokens': 0,
    'completion_tokens_details': None,
  }


def _frame(call, what) -> dict[str, Any]:
  return {
    'id': call.id,
    'object': what,
    'created': int(time.time()),
    'model': call.model,
  }


def whole(
  serving: server_state.Serving,
  call: server_openai_fields.Call,
  answers: Sequence[tuple[server_meta.Answer, dict[str, Any], float]],
) -> dict[str, Any]:
  """The answer to a request."""
  choices, metas = [], []
  for index, (job, each) in enumerate(zip(call.jobs, answers)):
    made = server_meta.body(serving, job, *each)
    meta, text = made['meta_info'], made.get('text', '')
    said: dict[str, Any] = {'text': text}
    if call.kind is server_openai_fields.CHAT:
      message = {'role': 'assistant', 'content': text}
      said = {'message': {**message, 'reasoning_content': None}}
    logprobs = _logprobs(serving, call, meta, 0)
    choices.append(
      {'index': index, **said, 'logprobs': logprobs, **_ends(call, job, made)}
    )
    metas.append((job, meta))
  last = metas[-1][1]
  return {
    **_frame(call, call.kind.object),
    'choices': choices,
    'usage': _usage(call, metas),
    'metadata': {
      'weight_version': last['weight_version'],
      'weight_versions': last['weight_versions'],
    },
  }


def _safe(text: str, stop: Sequence[str]) -> str:
  """Text without an end that may still change or be trimmed."""
  text = text.rstrip(_BROKEN)
  for string in stop:
    for n in range(min(len(string) - 1, len(text)), 0, -1):
      if text.endswith(string[:n]):
        return text[:-n]
  return text


class _Choice:
  """What of a choice has been sent."""

  def __init__(self, index: int, job: server_fields.Job):
    self.index, self.job = index, job
    self.text, self.tokens = '', 0

  def piece(self, serving, call, made) -> dict[str, Any] | None:
    """The next piece; None where there is nothing new to say."""
    meta, text = made['meta_info'], made.get('text', '')
    ended = meta['finish_reason'] is not None
    shown = text if ended else _safe(text, self.job.text.stop)
    new = shown[len(self.text) :] if shown.startswith(self.text) else ''
    if not new and not ended:
      return None
    logprobs = _logprobs(serving, call, meta, self.tokens)
    self.text, self.tokens = self.text + new, meta['completion_tokens']
    said: dict[str, Any] = {'text': new}
    if call.kind is server_openai_fields.CHAT:
      said = {'delta': {'content': new}}
    ends = {'finish_reason': None}
    if ended:
      ends = _ends(call, self.job, made)
    return {'index': self.index, **said, 'logprobs': logprobs, **ends}


async def stream(
  serving: server_state.Serving, call: server_openai_fields.Call
) -> AsyncGenerator[dict[str, Any], None]:
  """The pieces of an answer; the jobs have entered, and leave."""
  choices = [_Choice(i, job) for i, job in enumerate(call.jobs)]
  metas: dict[int, tuple[server_fields.Job, dict[str, Any]]] = {}
  say = lambda choice: {
    **_frame(call, call.kind.piece),
    'choices': [choice],
    'usage': None,
  }
  pieces = server_answers.stream(serving, call.jobs, True)
  async with contextlib.aclosing(pieces) as each:
    if call.kind is server_openai_fields.CHAT:
      for choice in choices:
        first = {'role': 'assistant', 'content': ''}
        yield say(
          {'index': choice.index, 'delta': first, 'finish_reason': None}
        )
    async for made in each:
      choice = choices[made['index']]
      metas[choice.index] = choice.job, made['meta_info']
      piece = choice.piece(serving, call, made)
      if piece is not None:
        yield say(piece)
  if call.usage:
    used = _usage(call, list(metas.values()))
    yield {**_frame(call, call.kind.piece), 'choices': [], 'usage': used}
