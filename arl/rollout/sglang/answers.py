"""What is believed of the answers of SGLang's /generate.

Ids, never text. Nothing is zipped: an answer whose parts disagree in length, or
with what was asked, is an error.
"""

import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from arl.rollout import engine
from arl.rollout.sglang import ask as sglang_ask

UNKNOWN = -1  # the version of a token in a piece of a stream before the last
_KINDS: Mapping[type, str] = {list: 'a list', str: 'text', dict: 'an object'}


def rid_of(answer: Mapping[str, Any]) -> Any:
  """The request that an answer says it is of; None where it says nothing."""
  meta = answer.get('meta_info')
  return meta.get('id') if isinstance(meta, dict) else None


def aborted_by_error(answer: Mapping[str, Any]) -> str:
  """Why a server gave a request up by itself; '' where it did not."""
  reason = answer['meta_info'].get('finish_reason')
  if isinstance(reason, dict) and reason.get('type') == 'abort':
    return str(reason.get('message')) if reason.get('status_code') else ''
  return ''


def _take(holder: Mapping[str, Any], key: str, kind: type) -> Any:
  if not isinstance(holder.get(key), kind):
    found = f'{key!r} = {holder[key]!r}'[:120] if key in holder else 'none'
    raise ValueError(
      f'{key!r} should be {_KINDS.get(kind, "a whole number")}, but there is'
      f' {found}; is this an SGLang of version 0.5.20 or newer, started with'
      ' what launch/sglang.sh gives it?'
    )
  return holder[key]


def number(version: str, names: Mapping[str, int]) -> int:
  """The version behind a server's name for it.

  Raises:
    ValueError: it is neither a number nor one of `names`.
  """
  if version in names:
    return names[version]
  if not version.isdecimal():
    raise ValueError(
      f'the weights are called {version!r}, which is no version that arl'
      ' published; start the server with --weight-version 0.'
    )
  return int(version)


def spread(
  spans: Sequence[Mapping[str, Any]], n: int, names: Mapping[str, int]
) -> np.ndarray:
  """Spans of versions as int32 [n].

  Raises:
    ValueError: they do not cover each of n tokens once, in order.
  """
  versions: list[int] = []
  for span in spans:
    start, end = _take(span, 'start', int), _take(span, 'end', int)
    if start != len(versions) or end < start:
      break
    name = _take(span, 'version', str)
    versions += [number(name, names)] * (end - start)
  else:
    if len(versions) == n:
      return np.array(versions, np.int32)
  raise ValueError(f'the spans of versions {spans} do not cover {n} tokens')


def triples(entries: Sequence[Any], ids: Sequence[int]) -> np.ndarray:
  """The log-probs of [log-prob, id, text] entries, float32 [n]; null is nan.

  Raises:
    ValueError: they are not those of `ids`.
  """
  if len(entries) != len(ids):
    raise ValueError(f'{len(entries)} log-probs for {len(ids)} tokens')
  if [entry[1] for entry in entries] != list(ids):
    raise ValueError('the log-probs are of other ids than the tokens')
  logp = [math.nan if entry[0] is None else entry[0] for entry in entries]
  return np.array(logp, np.float32)


def _tokens(answer, request, facts: sglang_ask.Facts) -> list[int]:
  meta, ids = answer['meta_info'], _take(answer, 'output_ids', list)
  for id in ids:
    if type(id) is not int or not 0 <= id < facts.vocab:
      raise ValueError(f'{id!r} came back, which is none of {facts.vocab} ids')
  counted = _take(meta, 'completion_tokens', int)
  fed = _take(meta, 'prompt_tokens', int)
  if counted != len(ids) or fed != len(request.tokens):
    raise ValueError(
      f'it counts {fed} tokens given and {counted} sampled, but'
      f' {len(request.tokens)} were given and {len(ids)} came back'
    )
  return ids


def _logp(meta: Mapping[str, Any], ids: Sequence[int], cut: bool) -> np.ndarray:
  entries = _take(meta, 'output_token_logprobs', list)
  logp = triples(entries, ids)
  if cut:  # of the distribution sampled from, not of all of the model's
    logp = np.array(_take(meta, 'output_token_sampling_logprobs', list))
    logp = logp.astype(np.float32)
  said = meta.get('output_token_logprobs_length', len(ids))
  if len(logp) != len(ids) or said != len(ids):
    raise ValueError(f'{len(logp)} log-probs, said to be {said}, of {len(ids)}')
  return logp


def _entropy(meta: Mapping[str, Any]) -> np.ndarray:
  return np.array(_take(meta, 'output_token_entropy', list), np.float32)


def _finish(meta, ids: Sequence[int], sampling: engine.Sampling) -> str:
  reason = meta.get('finish_reason')
  if reason is None:
    return ''
  kind, last = reason.get('type'), ids[-1] if ids else None
  if kind not in (engine.STOP, engine.LENGTH, engine.ABORT):
    raise ValueError(f'the finish reason is {reason}, which arl does not know')
  matched = reason.get('matched')
  if kind == engine.STOP and isinstance(matched, str):
    if matched not in sampling.stop_text:
      raise ValueError(
        f'the server stopped at {matched!r}, which is not among the stop texts'
        f' {sampling.stop_text}'
      )
    return kind
  if kind == engine.STOP and matched != last:
    raise ValueError(
      f'the finish reason is {reason}, but the last token is {last}; a stop'
      ' token belongs to its sample'
    )
  if kind == engine.STOP and last not in sampling.stop:
    raise ValueError(
      f'the server stopped at its own end token {last}, which is not among the'
      f' stop ids {sampling.stop}; make it one of them'
    )
  return kind


def _experts(meta, m: int, facts: sglang_ask.Facts) -> np.ndarray:
  text = meta.get('routed_experts')
  if not isinstance(text, str):
    raise ValueError(
      'no routed_experts came back; start the server with'
      ' --enable-return-routed-experts'
    )
  try:
    data = base64.b64decode(text, validate=True)
    flat = np.frombuffer(data, '<i4')
    return flat.astype(np.int32).reshape(m - 1, *facts.experts)
  except (binascii.Error, ValueError) as error:
    raise ValueError(
      f'routed_experts are not those of {m - 1} tokens in {facts.experts[0]}'
      f' layers with {facts.experts[1]} experts each ({error})'
    ) from error


def to_sample(
  answer: Mapping[str, Any],
  request: engine.Request,
  sampling: engine.Sampling,
  facts: sglang_ask.Facts,
) -> engine.Sample:
  """The sample in an answer, or in a piece of a stream.

  The finish of a piece that is not the last is '', its experts are None, and
  the versions of its tokens are UNKNOWN: a server tells them at the end.

  Raises:
    ValueError: the parts of the answer disagree.
  """
  meta = answer['meta_info']
  ids = _tokens(answer, request, facts)
  finish, n = _finish(meta, ids, sampling), len(ids)
  cut = sglang_ask.truncated(sampling) and not facts.ours
  logp = _logp(meta, ids, cut)
  if finish:
    versions = spread(_take(meta, 'weight_versions', list), n, facts.names)
  else:
    versions = np.full(n, UNKNOWN, np.int32)
  experts = None
  if sampling.experts and finish and (n or finish != engine.ABORT):
    experts = _experts(meta, len(request.tokens) + n, facts)
  sample = engine.Sample(
    tokens=np.array(ids, np.int32),
    logp=logp,
    finish=finish,
    versions=versions,
    entropy=_entropy(meta) if sampling.entropy else None,
    experts=experts,
    cached=_take(meta, 'cached_tokens', int),
  )
  if finish:
    engine.check_sample(sample, request, sampling)
  return sample


def to_scores(
  answer: Mapping[str, Any], tokens: Sequence[int], facts: sglang_ask.Facts
) -> np.ndarray:
  """The log-probs in the answer to `sglang_ask.scores`, float32 [n].

  Raises:
    ValueError: they are not those of the tokens, or no log-probs.
  """
  entries = _take(answer['meta_info'], 'input_token_logprobs', list)
  ids = [int(i) for i in tokens]
  # SGLang writes 0 for the last id of the vocabulary; the log-prob is right.
  shown = [0 if i == facts.vocab - 1 else i for i in ids]
  if not facts.ours and [entry[1] for entry in entries] == shown:
    ids = shown
  logp = triples(entries, ids)
  logp[:1] = 0  # nothing comes before it
  if not np.all(np.isfinite(logp)) or np.any(logp > 1e-3):
    raise ValueError(f'the log-probs {logp} are not all finite and <= 0')
  return logp


def grown(
  before: engine.Sample | None,
  now: engine.Sample,
  meta: Mapping[str, Any],
  started: int,
  facts: sglang_ask.Facts,
) -> engine.Sample:
  """The sample after one more piece of a stream; pieces hold all so far.

  An abort may come with fewer tokens than were streamed; none of them is lost.

  Args:
    before: the sample so far; None before the first piece.
    now: the next piece.
    meta: what the server says about it.
    started: the version of the server when the request was sent, or an older.
    facts: about the servers.

  Raises:
    ValueError: the piece takes back what was streamed, or cuts off tokens of
      versions that cannot be told any more.
  """
  if before is None:
    return now
  n, m = len(before.tokens), len(now.tokens)
  if m >= n and np.array_equal(now.tokens[:n], before.tokens):
    return now
  rest = before.tokens[max(n - m, 0) :]
  if now.finish != engine.ABORT or not np.array_equal(rest, now.tokens):
    raise ValueError(
      f'the stream went from {before.tokens} to {now.tokens}, but it should'
      ' only grow; start the server without --incremental-streaming-output'
    )
  ended = number(_take(meta, 'weight_version', str), facts.names)
  if started != ended:
    raise ValueError(
      f'a stream of {n} tokens was aborted with the versions of {m}, between'
      f' versions {started} and {ended}'
    )
  versions = np.full(n, ended, np.int32)
  return before._replace(finish=engine.ABORT, versions=versions)
