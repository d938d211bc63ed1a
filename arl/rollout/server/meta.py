"""What /generate tells of a sample: ids, log-probs and how it came about.

As SGLang tells it, with one difference that favours training: log-probs of the
output are those of the distribution that was sampled from, so with top_p, top_k
or min_p over what these left. Those of the prompt are at temperature 1.
"""

import asyncio
import base64
import functools
import time
from typing import Any, NamedTuple

import jax
import numpy as np

from arl.rollout import engine, tickets
from arl.rollout.server import fields as server_fields
from arl.rollout.server import state as server_state


class Answer(NamedTuple):
  """A result, what ended it (an id, text or None) and what the text says."""

  result: tickets.Result
  matched: Any
  text: str


def reason(answer: Answer) -> dict[str, Any] | None:
  """Why a sample ended; None while it goes on."""
  sample = answer.result.sample
  if not sample.finish:
    return None
  if sample.finish == engine.STOP:
    return {'type': 'stop', 'matched': answer.matched}
  if sample.finish == engine.LENGTH:
    return {'type': 'length', 'length': len(sample.tokens)}
  if answer.result.queued:
    return {'type': 'abort', 'message': 'Abort in waiting queue'}
  return {
    'type': 'abort',
    'message': 'Aborted',
    'status_code': None,
    'err_type': None,
  }


async def inputs(
  serving: server_state.Serving, job: server_fields.Job
) -> dict[str, Any]:
  """The fields about the log-probs of a prompt."""
  shown, ids = job.shown, job.request.tokens
  if not shown.logprob:
    return {}
  if shown.start < 0:
    return _columns(serving, shown, (), {}, 'input')
  if shown.start >= len(ids):
    raise server_fields.Refused(
      f'logprob_start_len is {shown.start}, but the prompt has {len(ids)}'
      ' tokens.'
    )
  asked = serving.engine.tell([ids], 1.0, shown.top, shown.watched or ())
  (told,) = await asyncio.wrap_future(asked)
  told = jax.tree.map(lambda x: x[shown.start :], told)
  made = _columns(serving, shown, ids[shown.start :], told, 'input')
  made['input_token_logprobs'][0][0] = None
  for name in ('input_top_logprobs', 'input_token_ids_logprobs'):
    if name in made:
      made[name][0] = None
  return made


def _triples(speaker, values, ids) -> list[list[Any]]:
  """Lists of [log-prob, id, text]; no text without someone to say it."""
  if speaker is None:
    return [[value, id, None] for value, id in zip(values, ids, strict=True)]
  return [
    [value, id, speaker.text([id], False)]
    for value, id in zip(values, ids, strict=True)
  ]


def _columns(serving, shown, ids, told, side) -> dict[str, Any]:
  """Log-probs of tokens as lists of [log-prob, id, text]."""
  triples = functools.partial(_triples, serving if shown.text else None)
  logp = told['logp'].tolist() if told else []
  made: dict[str, Any] = {f'{side}_token_logprobs': triples(logp, list(ids))}
  if shown.top:
    best, values = told['top'] if told else ([], [])
    made[f'{side}_top_logprobs'] = [
      triples(v[: shown.top].tolist(), i[: shown.top].tolist())
      for v, i in zip(values, best)
    ]
  if shown.watched is not None:
    n = len(shown.watched)
    made[f'{side}_token_ids_logprobs'] = [
      triples(v[:n].tolist(), shown.watched)
      for v in (told['watched'] if told else [])
    ]
  return made


def meta(
  serving: server_state.Serving,
  job: server_fields.Job,
  answer: Answer,
  about: dict[str, Any],
  began: float,
) -> dict[str, Any]:
  """SGLang's meta_info of an answer.

  Args:
    serving: the server.
    job: what was asked.
    answer: what came of it.
    about: of `inputs`.
    began: when it came, of time.perf_counter.
  """
  result, shown = answer.result, job.shown
  sample = result.sample
  n, spans = len(sample.tokens), serving.spans(sample)
  made: dict[str, Any] = {
    'id': job.rid,
    'finish_reason': reason(answer),
    'prompt_tokens': len(job.request.tokens),
    'weight_version': spans[-1]['version'],
    'num_retractions': result.retractions,
  }
  if shown.logprob:
    ids = sample.tokens.tolist()
    made |= about | _columns(serving, shown, ids, result.told, 'output')
    made['output_token_logprobs_length'] = n
  if shown.mask:
    made |= _masks(sample, result.told)
  made |= {
    'reasoning_tokens': 0,
    'completion_tokens': n,
    'cached_tokens': sample.cached,
  }
  if sample.finish:
    made['weight_versions'] = spans
    if sample.experts is not None:
      made['routed_experts'] = _packed(sample.experts[shown.experts :])
  cached = {'device': sample.cached, 'host': 0} if sample.cached else None
  made |= {'cached_tokens_details': cached, 'dp_rank': None}
  if sample.entropy is not None:
    made['output_token_entropy'] = sample.entropy.tolist()
  if sample.finish:
    made['e2e_latency'] = time.perf_counter() - began
  made['response_sent_to_client_ts'] = time.time()
  return made


def _masks(sample, told):
  kept = told['kept'] if told else []
  return {
    'output_token_sampling_mask': [
      np.flatnonzero(row).tolist() for row in kept
    ],
    'output_token_sampling_logprobs': sample.logp.tolist(),
    'output_token_sampling_mask_length': len(kept),
  }


def _packed(experts: np.ndarray) -> str:
  return base64.b64encode(experts.astype('<i4').tobytes()).decode()


def body(
  serving: server_state.Serving,
  job: server_fields.Job,
  answer: Answer,
  about: dict[str, Any],
  began: float,
) -> dict[str, Any]:
  """What /generate says of an answer; for arguments see `meta`."""
  made: dict[str, Any] = {}
  if serving.model.tokenizer is not None:
    made['text'] = answer.text
  made['output_ids'] = answer.result.sample.tokens.tolist()
  if job.shown.prompt:
    made['prompt_token_ids'] = list(job.request.tokens)
  made['meta_info'] = meta(serving, job, answer, about, began)
  return made
