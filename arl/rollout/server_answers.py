"""What /generate answers: ids, log-probs and how a sample came about.

As SGLang tells it, with one difference that favours training: log-probs of the
output are those of the distribution that was sampled from, so with top_p, top_k
or min_p over what these left. Those of the prompt are at temperature 1.
"""

import asyncio
import base64
import contextlib
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from arl.rollout import engine, server_fields, server_state, tickets


class Answer(NamedTuple):
  """A result, what ended it (an id, text or None) and what the text says."""

  result: tickets.Result
  matched: Any
  text: str


_NOTHING = tickets.Result(
  engine.Sample(
    np.zeros(0, np.int32), np.zeros(0, np.float32), '', np.zeros(0, np.int32)
  ),
  {},
  0,
  False,
)


async def answers(
  serving: server_state.Serving, job: server_fields.Job, each: bool
) -> AsyncGenerator[Answer, None]:
  """The answers to a job, more and more of it if `each`, else the last."""
  if not job.request.max_tokens:
    sample = _NOTHING.sample._replace(finish=engine.LENGTH)
    yield Answer(_NOTHING._replace(sample=sample), None, '')
    return
  results = serving.engine.results(
    job.request,
    job.sampling,
    job.wanted,
    name=job.rid,
    each=each or bool(job.text.stop),
  )
  checked, found = 0, None
  async with contextlib.aclosing(results):
    async for result in results:
      ids = result.sample.tokens.tolist()
      if job.text.stop and not found:
        found = _find(serving, job.text, ids, checked)
        checked = len(ids)
        if found and not result.sample.finish:
          serving.engine.abort(job.rid)  # the last result tells everything
      if result.sample.finish:
        yield _answer(serving, job, *_cut(result, found))
      elif each and not found:
        yield _answer(serving, job, result, None)


def _find(serving, text, ids, checked) -> tuple[int, str] | None:
  """After how many tokens the first stop string has come, and which."""
  whole = serving.text(ids, text.skip)
  if not any(string in whole for string in text.stop):
    return None
  for n in range(checked + 1, len(ids) + 1):
    part = serving.text(ids[:n], text.skip)
    for string in text.stop:
      if string in part:
        return n, string
  return None


def _cut(result, found):
  """The tokens that a stop string ends, and the string."""
  if not found:
    return result, None
  n, string = found
  sample = result.sample
  experts, fed = sample.experts, 0
  if experts is not None:
    fed = len(experts) + 1 - len(sample.tokens)
    experts = experts[: fed + n - 1]
  sample = sample._replace(
    tokens=sample.tokens[:n],
    logp=sample.logp[:n],
    versions=sample.versions[:n],
    entropy=None if sample.entropy is None else sample.entropy[:n],
    experts=experts,
    finish=engine.STOP,
  )
  told = jax.tree.map(lambda x: x[:n], result.told)
  return result._replace(sample=sample, told=told), string


def _answer(serving, job, result, string) -> Answer:
  sample = result.sample
  matched = string
  if sample.finish == engine.STOP and string is None:
    matched = int(sample.tokens[-1])
  if serving.model.tokenizer is None:
    return Answer(result, matched, '')
  ids = sample.tokens.tolist()
  if job.text.trim and type(matched) is int:
    ids = ids[:-1]
  text = serving.text(ids, job.text.skip)
  if job.text.trim and isinstance(matched, str):
    text = text[: text.find(matched)]
  return Answer(result, matched, text)


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


def _columns(serving, shown, ids, told, side) -> dict[str, Any]:
  """Log-probs of tokens as lists of [log-prob, id, text]."""
  say = lambda id: serving.text([id], False) if shown.text else None
  triples = lambda values, ids: [
    [value, id, say(id)] for value, id in zip(values, ids, strict=True)
  ]
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


async def whole(
  serving: server_state.Serving, jobs: Sequence[server_fields.Job]
) -> list[tuple[Answer, dict[str, Any], float]]:
  """The last answer to each job, with `about` and `began` as `meta` wants."""

  async def one(job):
    began = time.perf_counter()
    about = await inputs(serving, job)
    async with contextlib.aclosing(answers(serving, job, False)) as each:
      async for answer in each:
        last = answer
    return last, about, began

  if len(jobs) == 1:
    return [await one(jobs[0])]
  tasks = [asyncio.ensure_future(one(job)) for job in jobs]
  try:
    return await asyncio.gather(*tasks)
  finally:
    for task in tasks:
      task.cancel()


async def stream(
  serving: server_state.Serving,
  jobs: Sequence[server_fields.Job],
  listed: bool,
) -> AsyncGenerator[dict[str, Any], None]:
  """Ever longer answers to jobs; with the `index` of each if there are several.

  The jobs have entered, and leave.
  """
  ready: asyncio.Queue = asyncio.Queue()

  async def read(index, job):
    began = time.perf_counter()
    try:
      about = await inputs(serving, job)
      async with contextlib.aclosing(answers(serving, job, True)) as each:
        async for answer in each:
          made = body(serving, job, answer, about, began)
          ready.put_nowait(made | ({'index': index} if listed else {}))
    except Exception as error:
      ready.put_nowait(error)
    ready.put_nowait(None)

  tasks = [asyncio.ensure_future(read(i, job)) for i, job in enumerate(jobs)]
  try:
    left = len(tasks)
    while left:
      made = await ready.get()
      if isinstance(made, Exception):
        raise made
      left -= made is None
      if made is not None:
        yield made
  finally:
    for task in tasks:
      task.cancel()
    serving.leave(jobs)
