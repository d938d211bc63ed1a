"""Asking a model behind an OpenAI-compatible endpoint for a verdict."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import httpx
import tenacity

from arl.rewards import verdict

# What another try may change.
_PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504})


class Endpoint(NamedTuple):
  """A model that can be asked.

  Attributes:
    url: of the endpoint, up to and with /v1.
    model: its name there.
    key: sent as a bearer token; '' for none.
    seconds: a request may take.
    tries: of a request that fails on the way.
    max_tokens: of its answer.
    wait: seconds before the second try; doubled for each further one.
  """

  url: str
  model: str
  key: str = ''
  seconds: float = 60.0
  tries: int = 4
  max_tokens: int = 512
  wait: float = 0.5


class _Again(Exception):
  """A failure that may not happen again."""


async def ask(
  client: httpx.AsyncClient,
  asked: Endpoint,
  messages: Sequence[dict[str, str]],
  read: Callable[[str], verdict.Verdict],
) -> verdict.Verdict:
  """What a model says to a conversation, as a verdict.

  What fails on the way is tried again, `asked.tries` times in all. What it
  says is not: it is greedy, and would say it again.

  Args:
    client: shared by all that is asked.
    asked: the model.
    messages: the conversation.
    read: its words to a verdict.

  Returns:
    The verdict; a timeout if the last try was one, an error for all else.
  """
  body = {
    'model': asked.model,
    'messages': list(messages),
    'temperature': 0,
    'max_tokens': asked.max_tokens,
  }
  again = tenacity.AsyncRetrying(
    stop=tenacity.stop_after_attempt(asked.tries),
    wait=tenacity.wait_random_exponential(asked.wait, max=60),
    retry=tenacity.retry_if_exception_type((_Again, httpx.TransportError)),
    reraise=True,
  )
  try:
    return read(await again(_post, client, asked, body))
  except httpx.TimeoutException:
    return verdict.timeout(f'no answer of the judge in {asked.seconds:g} s')
  except (_Again, httpx.HTTPError, httpx.InvalidURL, ValueError) as failed:
    return verdict.error(f'the judge failed: {failed!r}'[:500])


async def _post(
  client: httpx.AsyncClient, asked: Endpoint, body: dict[str, Any]
) -> str:
  """The words of the answer."""
  answer = await client.post(
    asked.url.rstrip('/') + '/chat/completions',
    json=body,
    headers={'Authorization': f'Bearer {asked.key}'} if asked.key else {},
    timeout=asked.seconds,
  )
  if answer.status_code in _PASSING:
    raise _Again(f'status {answer.status_code}: {answer.text[:200]}')
  answer.raise_for_status()
  try:
    choice = answer.json()['choices'][0]
    words = choice['message']['content']
  except (KeyError, IndexError, TypeError) as failed:
    raise ValueError(f'no completion: {answer.text[:200]}') from failed
  if choice.get('finish_reason') == 'length' or not isinstance(words, str):
    raise ValueError(f'its answer is cut off or empty: {words!r:.200}')
  return words
