"""A proxy over real HTTP with a scripted policy, for tests of it."""

import contextlib

import conversations
import httpx
import numpy as np
import openai

from arl import episode
from arl.rollout import engine, loopback, proxy, record, strategies, templates
from arl.rollout.proxy import sampling as proxy_sampling

TOKENIZER = conversations.family('chatml')
LIMITS = strategies.Limits(
  max_turns=50, turn_tokens=200, context=4000, response_tokens=4000
)
TOOL = {
  'type': 'function',
  'function': {
    'name': 'get',
    'parameters': {
      'type': 'object',
      'properties': {'key': {'type': 'string'}},
    },
  },
}
CALL = '<tool_call>{"name":"get","arguments":{"key":"é"}}</tool_call>'
USER = [{'role': 'user', 'content': 'hello'}]


def ids(text):
  return TOKENIZER.encode(text, add_special_tokens=False)


def new(key):
  return record.Rollout(key, episode.Task(key, '', {}), 0, (0, 0))


def made(script, *, limits=LIMITS, rollouts=None, admit=new, **how):
  settings = proxy_sampling.Settings(
    templates.of(TOKENIZER), 'hermes', engine.Sampling(**how), limits
  )
  return proxy.Proxy(script, settings, rollouts or {}, admit)


class Server:
  """A proxy that answers on this machine, and its script."""

  def __init__(self, url, script, served):
    self.url, self.script, self.proxy = url, script, served
    self.number = 0

  def says(self, *texts):
    """What the policy says from now on, each text once, the last for ever."""
    queue = list(texts)
    one = lambda: queue.pop(0) if len(queue) > 1 else queue[0]
    given = lambda said: said if isinstance(said, engine.Sample) else ids(said)
    self.script.says = lambda request: given(one())
    self.script.calls.clear()

  def client(self, **options):
    """A client with a rollout of its own, and that rollout's key."""
    self.number += 1
    key = f'key{self.number}'
    options = {'max_retries': 0, **options}
    return openai.OpenAI(
      base_url=f'{self.url}/rollouts/{key}/v1', api_key='any', **options
    ), key

  def rollout(self, key):
    return self.proxy.rollouts[key]

  def post(self, path, **body):
    return httpx.post(f'{self.url}{path}', json=body)


def ask(client, messages=USER, **fields):
  return client.chat.completions.create(
    model='any', messages=messages, **fields
  )


def say(client, said, **fields):
  path = '/rollouts/k/v1/chat/completions'
  return client.post(path, json={'model': 'm', 'messages': said, **fields})


def sample_of(tokens, finish, version=7):
  n = len(tokens)
  return engine.Sample(
    np.array(tokens, np.int32),
    -np.ones(n, np.float32),
    finish,
    np.full(n, version, np.int32),
  )


@contextlib.contextmanager
def served():
  """A proxy on this machine whose policy says 'fine' until told otherwise."""
  script = conversations.Script(lambda request: ids('fine'))
  behind = made(script)
  with loopback.served(behind.app) as url:
    yield Server(url, script, behind)
