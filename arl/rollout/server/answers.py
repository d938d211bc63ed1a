"""From jobs to answers: run by the engine, cut where a stop string ends."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import jax
import numpy as np

from arl.rollout import engine, stop_text, tickets
from arl.rollout.server import fields as server_fields
from arl.rollout.server import meta as server_meta
from arl.rollout.server import state as server_state

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
) -> AsyncGenerator[server_meta.Answer, None]:
  """The answers to a job, more and more of it if `each`, else the last."""
  if not job.request.max_tokens:
    sample = _NOTHING.sample._replace(finish=engine.LENGTH)
    yield server_meta.Answer(_NOTHING._replace(sample=sample), None, '')
    return
  results = serving.engine.results(
    job.request,
    job.sampling,
    job.wanted,
    name=job.rid,
    each=each or bool(job.text.stop),
  )
  found, read = None, lambda ids: serving.text(ids, job.text.skip)
  async with contextlib.aclosing(results):
    async for result in results:
      ids = result.sample.tokens.tolist()
      if job.text.stop and not found:
        found = stop_text.find(ids, job.text.stop, read)
        if found and not result.sample.finish:
          serving.engine.abort(job.rid)  # the last result tells everything
      if result.sample.finish:
        yield _answer(serving, job, *_cut(result, found))
      elif each and not found:
        yield _answer(serving, job, result, None)


def _cut(result, found):
  """The tokens that a stop string ends, and the string."""
  if not found:
    return result, None
  n, string = found
  sample = engine.cut(result.sample, n)
  told = jax.tree.map(lambda x: x[:n], result.told)
  return result._replace(sample=sample, told=told), string


def _answer(serving, job, result, string) -> server_meta.Answer:
  sample = result.sample
  matched = string
  if sample.finish == engine.STOP and string is None:
    matched = int(sample.tokens[-1])
  if serving.model.tokenizer is None:
    return server_meta.Answer(result, matched, '')
  ids = sample.tokens.tolist()
  if job.text.trim and type(matched) is int:
    ids = ids[:-1]
  text = serving.text(ids, job.text.skip)
  if job.text.trim and isinstance(matched, str):
    text = text[: text.find(matched)]
  return server_meta.Answer(result, matched, text)


async def whole(
  serving: server_state.Serving, jobs: Sequence[server_fields.Job]
) -> list[tuple[server_meta.Answer, dict[str, Any], float]]:
  """The last answer to each job, with `about` and `began` as `meta` wants."""

  async def one(job):
    began = time.perf_counter()
    about = await server_meta.inputs(serving, job)
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
      about = await server_meta.inputs(serving, job)
      async with contextlib.aclosing(answers(serving, job, True)) as each:
        async for answer in each:
          made = server_meta.body(serving, job, answer, about, began)
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
