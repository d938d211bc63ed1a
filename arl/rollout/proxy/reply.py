"""From a sample to the answer of an OpenAI endpoint, whole or in pieces."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from arl.envs import calls
from arl.rollout import engine as engine_lib
from arl.rollout import stop_text, templates

_THINK = ('<think>', '</think>')
_FINISH = {engine_lib.STOP: 'stop', engine_lib.LENGTH: 'length'}
_HALF = '\N{REPLACEMENT CHARACTER}'


class Piece(NamedTuple):
  """A sample as text.

  Attributes:
    text: without what ended it: a stop id or a stop text.
    sample: cut after the stop text, where there was one.
    ended: whether its last id ends a turn.
  """

  text: str
  sample: engine_lib.Sample
  ended: bool


def piece(
  decode: Callable[[Sequence[int]], str],
  sample: engine_lib.Sample,
  stop_ids: Sequence[int],
  stop: Sequence[str],
) -> Piece:
  """The text of a sample, and the sample cut where a stop text ends it.

  It is cut after the first token with which the stop text is complete; what
  was sampled behind that is forgotten.
  """
  ids = [int(i) for i in sample.tokens]
  ended = bool(ids) and ids[-1] in stop_ids
  text = decode(ids[: len(ids) - ended])
  found = [at for at in (text.find(word) for word in stop) if at >= 0]
  if not found:
    return Piece(text, sample, ended)
  spelt = stop_text.find(ids[: len(ids) - ended], stop, decode)
  assert spelt is not None
  return Piece(text[: min(found)], engine_lib.cut(sample, spelt[0]), False)


def think(text: str, opened: bool) -> tuple[str, str]:
  """A text as its thought and the rest; a thought begins it or is none.

  Args:
    text: all of it, or its beginning.
    opened: whether the template opened the thought.
  """
  start, end = _THINK
  if not opened and not text.lstrip().startswith(start):
    return '', text
  thought, _, rest = text.partition(end)
  return thought.lstrip().removeprefix(start).strip(), rest.lstrip('\n')


def message(
  one: Piece, number: str, opened: bool, read: templates.Read | None
) -> dict[str, Any]:
  """What the agent is shown of a sample.

  Args:
    one: the sample.
    number: part of the ids of its calls; unlike that of any other.
    opened: whether the template opened a thought.
    read: finds the calls; None where calls are not asked for. A broken call
      stays in the content, as it is.
  """
  thought, content = think(one.text, opened)
  made: dict[str, Any] = {'role': 'assistant', 'content': content}
  if thought:
    made['reasoning_content'] = thought
  reply = read(one.text) if read else None
  good = [c for c in reply.calls if isinstance(c, calls.Call)] if reply else []
  if reply and good:
    content = think(reply.rest, opened)[1].strip()
    made['content'] = content or None
    made['tool_calls'] = [
      {
        'id': f'call_{number}_{i}',
        'type': 'function',
        'function': {
          'name': call.name,
          'arguments': json.dumps(call.arguments, ensure_ascii=False),
        },
      }
      for i, call in enumerate(good)
    ]
  return made


def finish(one: Piece, shown: dict[str, Any]) -> str:
  """The finish reason, in OpenAI's words."""
  if one.sample.finish == engine_lib.STOP and shown.get('tool_calls'):
    return 'tool_calls'
  return _FINISH[one.sample.finish]


def logprobs(
  pieces: Callable[[Sequence[int]], list[str]], sample: engine_lib.Sample
) -> dict[str, Any]:
  """The log-probs of a chat answer, with the ids they are of."""
  ids = [int(i) for i in sample.tokens]
  return {
    'content': [
      {
        'token': text,
        'token_id': i,
        'bytes': list(text.encode(errors='replace')),
        'logprob': float(logp),
        'top_logprobs': [],
      }
      for i, text, logp in zip(ids, pieces(ids), sample.logp)
    ],
    'refusal': None,
  }


def text_logprobs(
  pieces: Callable[[Sequence[int]], list[str]], sample: engine_lib.Sample
) -> dict[str, Any]:
  """The log-probs of a completion, with the ids they are of."""
  ids = [int(i) for i in sample.tokens]
  return {
    'tokens': pieces(ids),
    'token_ids': ids,
    'token_logprobs': [float(x) for x in sample.logp],
    'top_logprobs': None,
  }


def usage(prompt: int, samples: Sequence[engine_lib.Sample]) -> dict[str, Any]:
  """Counts of tokens."""
  sampled = int(np.sum([len(sample.tokens) for sample in samples]))
  return {
    'prompt_tokens': prompt,
    'completion_tokens': sampled,
    'total_tokens': prompt + sampled,
    'prompt_tokens_details': {'cached_tokens': max(s.cached for s in samples)},
  }


def envelope(kind: str, id: str, model: str) -> dict[str, Any]:
  """What every answer and every piece of one begins with."""
  return {
    'id': id,
    'object': kind,
    'created': int(time.time()),
    'model': model,
  }


def certain(text: str, stop: Sequence[str]) -> str:
  """The beginning of a text that what is still sampled cannot take back.

  Held back are characters that may become others, and what may become a stop
  text or the tag of a thought.
  """
  text, stop = text.rstrip(_HALF), (*stop, _THINK[1])
  if _THINK[0].startswith(text.strip()):
    return ''
  longest = max(len(word) for word in stop)
  for n in range(min(longest - 1, len(text)), 0, -1):
    if any(word.startswith(text[-n:]) for word in stop):
      return text[:-n]
  return text


def deltas(shown: dict[str, Any], told: dict[str, str]) -> Iterator[dict]:
  """The pieces of a message that were not told yet; notes what they tell.

  Args:
    shown: the message, or its beginning.
    told: what was told so far, by field.
  """
  for key in ('reasoning_content', 'content'):
    text, before = shown.get(key) or '', told.get(key, '')
    if text != before and text.startswith(before):
      told[key] = text
      yield {key: text[len(before) :]}
  for index, call in enumerate(shown.get('tool_calls', ())):
    yield {'tool_calls': [{'index': index, **call}]}


def event(value: Any) -> str:
  """A server-sent event."""
  text = value if isinstance(value, str) else json.dumps(value)
  return f'data: {text}\n\n'
