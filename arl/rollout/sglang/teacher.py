"""A teacher that SGLang serves: what it says of tokens that others chose.

It is asked in ids, so it must spell as the policy does; that is checked when it
is met. Servers score at temperature 1 alone.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from arl.rollout import chat, engine, event_loop
from arl.rollout.sglang import answers as sglang_answers
from arl.rollout.sglang import ask as sglang_ask
from arl.rollout.sglang import fleet as sglang_fleet
from arl.rollout.sglang import greet as sglang_greet
from arl.rollout.sglang import worker as sglang_worker

_AT_ONCE = 512  # ids whose text is compared at a time


class Said(NamedTuple):
  """What a teacher says of n tokens; nothing of the first, which is 0.

  Attributes:
    logp: float32 [n].
    ids: int32 [n, K], the likeliest tokens in its place, the likeliest first.
    top_logp: float32 [n, K], of those.
  """

  logp: np.ndarray
  ids: np.ndarray
  top_logp: np.ndarray


class Teacher:
  """A served model that is asked and never changed; see `connect`."""

  def __init__(
    self, fleet: sglang_fleet.Fleet, loop: event_loop.Loop, context: int
  ):
    self._fleet, self._loop, self._context = fleet, loop, context

  def say(self, sequences: Sequence[Sequence[int]], top: int) -> list[Said]:
    """What it says of each sequence.

    Args:
      sequences: of ids.
      top: how many of the likeliest tokens are wanted; 0 for none.

    Raises:
      ValueError: a sequence that it cannot read.
      ServerError: an answer that did not come, or not as it should.
    """
    vocab = self._fleet.facts.vocab
    engine.check_scored(sequences, 1.0, vocab=vocab, context=self._context)
    return self._loop.run(
      event_loop.together([self._say(ids, top) for ids in sequences])
    )

  async def _say(self, ids: Sequence[int], top: int) -> Said:
    top = min(top, self._fleet.facts.vocab)

    def read(answer):
      logp = sglang_answers.to_scores(answer, ids, self._fleet.facts)
      return Said(logp, *likeliest(answer, len(ids), top))

    return await self._fleet.ask(
      lambda rid: sglang_ask.scores(ids, rid, top), read
    )

  def close(self) -> None:
    """Ends the connections."""
    self._loop.run(self._fleet.close())
    self._loop.stop()


def likeliest(
  answer: Mapping[str, Any], n: int, top: int
) -> tuple[np.ndarray, np.ndarray]:
  """The likeliest ids at each of n places and their log-probs, [n, top] each.

  Raises:
    ValueError: they are not as many as were asked for, or out of order.
  """
  ids = np.zeros((n, top), np.int32)
  logp = np.zeros((n, top), np.float32)
  if not top:
    return ids, logp
  told = answer['meta_info'].get('input_top_logprobs')
  if not isinstance(told, list) or len(told) != n:
    raise ValueError(f'no {n} lists of the likeliest tokens came back')
  for place, entries in enumerate(told[1:], start=1):
    if len(entries) != top:
      raise ValueError(
        f'{len(entries)} of the {top} likeliest tokens came back'
      )
    ids[place] = [entry[1] for entry in entries]
    logp[place] = [entry[0] for entry in entries]
  if np.any(np.diff(logp) > 1e-3) or not np.all(np.isfinite(logp)):
    raise ValueError('the likeliest tokens came back out of order')
  return ids, logp


def connect(
  url: str,
  tokenizer: Any,
  *,
  vocab: int,
  context: int,
  limit: int = 64,
  timeout: float = 600.0,
  patience: float = 300.0,
) -> Teacher:
  """A teacher at a URL.

  Args:
    url: of the server, 'http://host:port'.
    tokenizer: of the policy.
    vocab: how many ids the policy knows; the teacher may have room for more.
    context: the longest sequence, in tokens.
    limit: requests that the server is sent at a time.
    timeout: seconds without a byte of an answer after which it is asked again.
    patience: seconds to ask again what fails, ten times at least.

  Raises:
    ServerError: it cannot be reached, reads less than `context` tokens, or does
      not spell as the policy does.
  """
  worker = sglang_worker.Worker(url, limit=limit, timeout=timeout)
  loop = event_loop.Loop()
  try:
    facts = loop.run(_meet(worker, tokenizer, vocab, context))
  except BaseException:
    loop.run(worker.close())
    loop.stop()
    raise
  fleet = sglang_fleet.Fleet(
    [worker], facts, version=0, seed=0, patience=patience
  )
  return Teacher(fleet, loop, context)


async def _meet(worker, tokenizer, vocab, context) -> sglang_ask.Facts:
  names = {await worker.version(): 0}
  met = await sglang_greet.greet(
    [worker], vocab=None, context=context, names=names
  )
  await check_tokenizer(worker, tokenizer)
  return sglang_ask.Facts(met.ours, vocab, met.texts, (0, 0), names)


async def check_tokenizer(worker: sglang_worker.Worker, tokenizer: Any) -> None:
  """Proves that a server gives texts the ids that the policy gives them.

  By the digest of its vocabulary, where it tells one; else by the ids of a text
  for each part of the policy's vocabulary.

  Raises:
    ServerError: it does not, or nothing can tell.
  """
  server = await worker.get('/server_info')
  if server.get('skip_tokenizer_init'):
    raise sglang_worker.ServerError(
      f'{worker.url} runs without a tokenizer, so that nothing shows that the'
      ' teacher spells as the policy does; start it with one.'
    )
  digest = server.get('tokenizer_digest')
  if digest is not None:
    if digest != chat.digest(tokenizer):
      raise _other(worker, 'their vocabularies differ')
    return
  ids = sorted(tokenizer.get_vocab().values())
  texts = [
    tokenizer.decode(ids[i : i + _AT_ONCE], skip_special_tokens=False)
    for i in range(0, len(ids), _AT_ONCE)
  ]
  turns = asyncio.Semaphore(8)

  async def check(text):
    async with turns:
      found = await worker.post('/tokenize', {'prompt': text})
    if found.get('tokens') != tokenizer.encode(text):
      raise _other(worker, f'{text[:40]!r} has other ids there')

  await event_loop.together([check(text) for text in texts])


def _other(worker, why: str) -> sglang_worker.ServerError:
  return sglang_worker.ServerError(
    f'the teacher at {worker.url} and the policy do not share a tokenizer:'
    f' {why}; a teacher reads the ids of the policy.'
  )
