"""What a request to the proxy may say, and what is refused by name."""

import conversations
import httpx
import openai
import proxies
import pytest
from starlette import testclient

from arl.rollout import engine, proxy, templates
from arl.rollout.proxy import sampling as proxy_sampling


@pytest.fixture(scope='module')
def server():
  with proxies.served() as made:
    yield made


NEUTRAL = {
  'user': 'me',
  'store': False,
  'metadata': {'a': 'b'},
  'parallel_tool_calls': True,
  'response_format': {'type': 'text'},
  'frequency_penalty': 0.0,
  'presence_penalty': 0,
  'logit_bias': {},
  'service_tier': 'auto',
  'temperature': 1.0,
  'top_p': 1,
  'n': 1,
  'seed': None,
  'stop': None,
  'logprobs': False,
  'tool_choice': 'auto',
  'reasoning_effort': None,
  'modalities': ['text'],
}


def test_fields_that_mean_nothing(server):
  server.says('a')
  body = {'model': 'any', 'messages': proxies.USER, **NEUTRAL}
  answer = server.post('/rollouts/neutral/v1/chat/completions', **body)
  assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
  'name, value',
  [
    ('temprature', 1.0),
    ('temperature', 0.7),
    ('temperature', 0),
    ('top_p', 0.9),
    ('top_k', 5),
    ('store', True),
    ('parallel_tool_calls', False),
    ('response_format', {'type': 'json_object'}),
    ('frequency_penalty', 0.5),
    ('logit_bias', {'3': 1}),
    ('tool_choice', 'required'),
    ('tool_choice', {'type': 'function', 'function': {'name': 'get'}}),
    ('reasoning_effort', 'high'),
    ('top_logprobs', 5),
    ('n', 0),
    ('stop', ['']),
    ('max_tokens', 0),
    ('max_completion_tokens', '5'),
    ('seed', 1.5),
    ('stream', 'yes'),
    ('stream_options', {'chunk': 1}),
    ('tools', [{'type': 'function'}]),
    ('messages', []),
    ('messages', 'hello'),
    ('ignore_eos', True),
  ],
)
def test_fields_that_are_refused_by_name(server, name, value):
  body = {'model': 'any', 'messages': proxies.USER, name: value}
  answer = server.post('/rollouts/refused/v1/chat/completions', **body)
  assert answer.status_code == 400
  error = answer.json()['error']
  assert error['message'].startswith(name)
  assert error['type'] == 'invalid_request_error'


@pytest.mark.parametrize(
  'message, where',
  [
    ({'role': 'function', 'content': ''}, 'messages[0]'),
    ({'role': 'user'}, 'messages[0].content'),
    ({'role': 'user', 'content': 'x', 'weight': 1}, 'messages[0].weight'),
    ({'role': 'user', 'content': 3}, 'messages[0].content'),
    (
      {'role': 'user', 'content': [{'type': 'image_url', 'image_url': {}}]},
      'messages[0].content[0]',
    ),
    (
      {'role': 'assistant', 'content': '', 'function_call': {'name': 'f'}},
      'messages[0].function_call',
    ),
    (
      {
        'role': 'assistant',
        'tool_calls': [
          {'type': 'function', 'function': {'name': 'f', 'arguments': '[1]'}}
        ],
      },
      'messages[0].tool_calls[0].function',
    ),
  ],
)
def test_messages_that_are_refused_by_name(server, message, where):
  body = {'model': 'any', 'messages': [message]}
  answer = server.post('/rollouts/refused/v1/chat/completions', **body)
  assert answer.status_code == 400
  assert answer.json()['error']['message'].startswith(where)


def test_messages_in_every_form(server):
  server.says('a')
  parts = [{'type': 'text', 'text': 'he'}, {'type': 'text', 'text': 'llo'}]
  client, _ = server.client()
  proxies.ask(client, [{'role': 'developer', 'content': 'x'}, *proxies.USER])
  proxies.ask(
    client,
    [{'role': 'system', 'content': 'x'}, {'role': 'user', 'content': parts}],
  )
  a, b = server.script.calls
  assert a.tokens == b.tokens


def test_special_tokens_from_outside(server):
  client, _ = server.client()
  said = [{'role': 'user', 'content': 'say <|im_end|>!'}]
  with pytest.raises(openai.BadRequestError, match=r'0\] contains .<\|im_end'):
    proxies.ask(client, said)
  with pytest.raises(openai.BadRequestError, match=r'prompt contains .<\|im_'):
    client.completions.create(model='any', prompt='<|im_start|>')
  with pytest.raises(openai.BadRequestError, match='cannot encode'):
    proxies.ask(client, [{'role': 'user', 'content': 'ß'}])
  with pytest.raises(openai.BadRequestError, match='holds id 99999'):
    client.completions.create(model='any', prompt=[99999])


def test_not_json(server):
  answer = httpx.post(f'{server.url}/rollouts/x/v1/completions', content='{')
  assert answer.status_code == 400 and 'not JSON' in answer.text
  answer = server.post('/rollouts/x/reward', reward=1, cal=1)
  assert answer.status_code == 400 and 'cal: there is no' in answer.text


def test_a_key_that_nobody_gave():
  only = proxies.made(
    conversations.Script(None), rollouts={'a': proxies.new('a')}, admit=None
  )
  client = testclient.TestClient(only.app)
  answer = client.post('/rollouts/b/v1/chat/completions', json={})
  assert answer.status_code == 401 and "key 'b'" in answer.text
  assert client.post('/v1/chat/completions', json={}).status_code == 401


def test_a_reward_for_nobody(server):
  answer = server.post('/rollouts/nobody/reward', reward=1)
  assert answer.status_code == 401 and 'nobody' not in server.proxy.rollouts


def test_an_unknown_syntax():
  settings = proxy_sampling.Settings(
    templates.of(proxies.TOKENIZER), 'xml', engine.Sampling(), proxies.LIMITS
  )
  with pytest.raises(ValueError, match="no syntax 'xml'; known are hermes"):
    proxy.Proxy(conversations.Script(None), settings, {})
