"""The proxy over real HTTP: an unmodified client, and what is written down."""

import concurrent.futures
import json
import time

import conversations
import httpx
import hypothesis
import hypothesis.strategies as st
import numpy as np
import openai
import pytest
from starlette import testclient

from arl import episode
from arl.rollout import (
  engine,
  loopback,
  proxy,
  proxy_sampling,
  record,
  rows,
  strategies,
  templates,
)

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


@pytest.fixture(scope='module')
def server():
  script = conversations.Script(lambda request: ids('fine'))
  served = made(script)
  with loopback.served(served.app) as url:
    yield Server(url, script, served)


def ask(client, messages=USER, **fields):
  return client.chat.completions.create(
    model='any', messages=messages, **fields
  )


def test_a_tool_loop_is_written_down(server):
  server.says(f'let me see {CALL}', 'it is 3')
  client, key = server.client()
  first = ask(client, tools=[TOOL])
  (choice,) = first.choices
  assert choice.finish_reason == 'tool_calls'
  assert choice.message.content == 'let me see'
  (call,) = choice.message.tool_calls
  assert json.loads(call.function.arguments) == {'key': 'é'}
  result = {'role': 'tool', 'tool_call_id': call.id, 'content': '3'}
  second = ask(client, [*USER, choice.message, result], tools=[TOOL])
  assert second.choices[0].message.content == 'it is 3'
  assert second.choices[0].finish_reason == 'stop'
  a, b = server.script.calls
  said = [*ids(f'let me see {CALL}'), TOKENIZER.eos_token_id]
  assert list(b.tokens[: len(a.tokens) + len(said)]) == [*a.tokens, *said]
  assert first.usage.prompt_tokens == len(a.tokens)
  assert first.usage.completion_tokens == len(said)
  assert server.post(f'/rollouts/{key}/reward', reward=0.5).status_code == 200
  reward = {'reward': 0.25, 'call': 0}
  assert server.post(f'/rollouts/{key}/reward', **reward).status_code == 200
  rollout = server.rollout(key)
  record.close(rollout)
  (row,) = rows.of(rollout)
  assert row.status == episode.FINISHED and row.row == 0
  assert row.tokens[: len(b.tokens)].tolist() == list(b.tokens)
  starts = len(a.tokens), len(b.tokens)
  assert np.flatnonzero(row.mask).tolist() == [
    *range(starts[0], starts[0] + len(said)),
    *range(starts[1], len(row.tokens)),
  ]
  assert row.logp[starts[0]] == -0.5 and not row.logp[~row.mask].any()
  versions = row.extras['rollout_version']
  assert set(versions[row.mask]) == {7} and set(versions[~row.mask]) == {-1}
  assert np.unique(row.turn[row.mask]).tolist() == [0, 1]
  assert row.rewards[starts[0] + len(said) - 1] == 0.25
  assert row.rewards[-1] == 0.5 and np.count_nonzero(row.rewards) == 2
  assert [x.action for x in row.exchanges] == [f'let me see {CALL}', 'it is 3']


def test_the_record_is_lines_of_json(server):
  server.says('a', 'b')
  client, key = server.client()
  answer = ask(client).choices[0].message
  ask(client, [*USER, answer, *USER])
  text = httpx.get(f'{server.url}/rollouts/{key}').text
  head, first, second = map(json.loads, text.splitlines())
  assert head['calls'] == 2 and head['rows'] == 1 and head['status'] == ''
  assert (first['parent'], second['parent']) == (None, 0)
  assert first['tokens'] == [*ids('a'), TOKENIZER.eos_token_id]
  assert len(first['logp']) == len(first['versions']) == 2
  assert second['start'] == len(second['prompt'])
  assert second['context'] != first['context']


def test_the_key_may_be_the_api_key(server):
  server.says('a')
  client = openai.OpenAI(base_url=f'{server.url}/v1', api_key='mine')
  ask(client)
  assert len(server.rollout('mine').calls) == 1
  (model,) = client.models.list().data
  assert model.id == 'policy'


def test_a_key_that_nobody_gave():
  only = made(conversations.Script(None), rollouts={'a': new('a')}, admit=None)
  client = testclient.TestClient(only.app)
  answer = client.post('/rollouts/b/v1/chat/completions', json={})
  assert answer.status_code == 401 and "key 'b'" in answer.text
  assert client.post('/v1/chat/completions', json={}).status_code == 401


def test_a_reward_for_nobody(server):
  answer = server.post('/rollouts/nobody/reward', reward=1)
  assert answer.status_code == 401 and 'nobody' not in server.proxy.rollouts


def test_rows_of_what_goes_on(server):
  with pytest.raises(ValueError, match="'k' is not closed"):
    rows.of(new('k'))


@pytest.mark.parametrize(
  'said',
  [
    'fine',
    f'see {CALL}',
    '<think>hm</think>\nso',
    '<think>hm',
    '',
    'é\n<think',
  ],
)
@pytest.mark.parametrize('tools', [[TOOL], []])
def test_pieces_are_the_whole(server, said, tools):
  server.says(said)
  client, key = server.client()
  whole = ask(client, tools=tools)
  pieces = list(
    ask(
      client, tools=tools, stream=True, stream_options={'include_usage': True}
    )
  )
  assert pieces[-1].usage == whole.usage and not pieces[-1].choices
  text, thought, calls, finish = '', '', [], None
  for piece in pieces[:-1]:
    delta = piece.choices[0].delta
    text += delta.content or ''
    thought += getattr(delta, 'reasoning_content', None) or ''
    calls += delta.tool_calls or []
    finish = piece.choices[0].finish_reason or finish
  message = whole.choices[0].message
  assert text == (message.content or '')
  assert thought == (getattr(message, 'reasoning_content', None) or '')
  assert [c.function.arguments for c in calls] == [
    c.function.arguments for c in message.tool_calls or []
  ]
  assert finish == whole.choices[0].finish_reason
  if not tools and said == 'fine':
    assert len(pieces) > 5  # it did come in pieces
  first, second = server.rollout(key).calls
  assert first.sample.tokens.tolist() == second.sample.tokens.tolist()
  assert [first.row, second.row] == [0, 1]


def test_a_thought_is_told_apart(server):
  server.says('<think>hm</think>so')
  client, _ = server.client()
  message = ask(client).choices[0].message
  assert (message.reasoning_content, message.content) == ('hm', 'so')


def test_calls_may_be_switched_off(server):
  server.says(CALL)
  client, _ = server.client()
  message = ask(client, tools=[TOOL], tool_choice='none').choices[0].message
  assert message.content == CALL and not message.tool_calls


def test_a_broken_call_stays_in_the_content(server):
  broken = '<tool_call>{"name":}</tool_call>'
  server.says(f'{broken}{CALL}')
  client, _ = server.client()
  message = ask(client, tools=[TOOL]).choices[0].message
  assert message.content == broken and len(message.tool_calls) == 1


@pytest.mark.parametrize('stream', [False, True])
def test_several_samples(server, stream):
  server.says('a', 'b', 'c')
  client, key = server.client()
  answer = ask(client, n=3, stream=stream)
  if stream:
    texts = ['', '', '']
    for piece in answer:
      for choice in piece.choices:
        texts[choice.index] += choice.delta.content or ''
  else:
    texts = [choice.message.content for choice in answer.choices]
  assert sorted(texts) == ['a', 'b', 'c']
  paths = [request.path for request in server.script.calls]
  assert paths == [(0, 0, 0), (0, 0, 1), (0, 0, 2)]
  rollout = server.rollout(key)
  assert [call.row for call in rollout.calls] == [0, 1, 2]
  rollout.grade(1.0)
  record.close(rollout)
  episodes = rows.of(rollout)
  assert [one.row for one in episodes] == [0, 1, 2]
  assert [one.rewards.sum() for one in episodes] == [0, 0, 1]


@pytest.mark.parametrize('stream', [False, True])
def test_a_stop_text(server, stream):
  server.says('one\nObservation: two')
  client, key = server.client()
  answer = ask(client, stop=['\nObservation:', 'zzz'], stream=stream)
  if stream:
    text = ''.join(piece.choices[0].delta.content or '' for piece in answer)
  else:
    text = answer.choices[0].message.content
    assert answer.choices[0].finish_reason == 'stop'
  assert text == 'one'
  (call,) = server.rollout(key).calls
  assert call.sample.tokens.tolist() == ids('one\nObservation:')
  assert len(call.sample.logp) == len(call.sample.versions) == 16
  assert server.script.running == 0  # the engine need not go on
  server.says('so')
  ask(client, [*USER, {'role': 'assistant', 'content': text}, *USER])
  assert len(server.rollout(key).rows) == 1  # it goes on with what was sampled


@pytest.mark.parametrize('late', ['versions', 'experts'])
def test_a_stop_text_of_an_engine_that_tells_more_at_the_end(late):
  class Late(conversations.Script):
    async def stream(self, request, sampling):
      m = len(request.tokens)
      async for sample in super().stream(request, sampling):
        n = len(sample.tokens)
        chosen = np.zeros((m + n - 1, 2, 2), np.int32)
        sample = sample._replace(experts=chosen)
        if not sample.finish and late == 'versions':
          sample = sample._replace(versions=np.full(n, -1))
        elif not sample.finish:
          sample = sample._replace(experts=None)
        yield sample

  served = made(Late(lambda request: ids('one, two')), experts=True)
  client = testclient.TestClient(served.app)
  answer = say(client, USER, stop=[','])
  assert answer.json()['choices'][0]['message']['content'] == 'one'
  rollout = served.rollouts['k']
  rollout.grade(1.0)
  record.close(rollout)
  (row,) = rows.of(rollout)
  sampled = row.tokens[row.mask].tolist()
  assert sampled == ids('one,')
  assert set(row.extras['rollout_version'][row.mask]) == {7}
  chosen = row.extras['routed_experts']
  assert chosen.shape == (len(row.tokens), 2, 2)
  assert np.all(chosen[:-1] == 0) and np.all(chosen[-1] == -1)


def test_log_probs(server):
  server.says('ab')
  client, _ = server.client()
  content = ask(client, logprobs=True).choices[0].logprobs.content
  assert [one.token for one in content] == ['a', 'b', '<|im_end|>']
  assert [one.logprob for one in content] == [-0.5, -0.515625, -0.53125]
  answer = client.completions.create(model='m', prompt='x', logprobs=0)
  told = answer.choices[0].logprobs
  assert told.tokens == ['a', 'b', '<|im_end|>']
  assert told.token_ids == [*ids('ab'), TOKENIZER.eos_token_id]


@pytest.mark.parametrize('prompt', ['hello', ids('hello')])
@pytest.mark.parametrize('stream', [False, True])
def test_completions(server, prompt, stream):
  server.says('fine')
  client, key = server.client()
  answer = client.completions.create(
    model='any', prompt=prompt, max_tokens=2, stream=stream
  )
  answers = list(answer) if stream else [answer]
  assert ''.join(one.choices[0].text for one in answers) == 'fi'
  assert answers[-1].choices[0].finish_reason == 'length'
  assert list(server.script.calls[0].tokens) == ids('hello')
  (call,) = server.rollout(key).calls
  assert not call.limited  # it is what the agent asked for


def test_randomness(server):
  server.says('a')
  client, _ = server.client()
  ask(client)
  ask(client)
  ask(client, seed=99)
  ask(client, seed=99, n=2)
  paths = [request.path for request in server.script.calls]
  assert [path[-1] for path in paths] == [0, 1, 99, 99, 100]
  assert len({len(path) for path in paths}) == 1


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
  body = {'model': 'any', 'messages': USER, **NEUTRAL}
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
  body = {'model': 'any', 'messages': USER, name: value}
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
  ask(client, [{'role': 'developer', 'content': 'x'}, *USER])
  ask(
    client,
    [{'role': 'system', 'content': 'x'}, {'role': 'user', 'content': parts}],
  )
  a, b = server.script.calls
  assert a.tokens == b.tokens


def test_special_tokens_from_outside(server):
  client, _ = server.client()
  said = [{'role': 'user', 'content': 'say <|im_end|>!'}]
  with pytest.raises(openai.BadRequestError, match=r'0\] contains .<\|im_end'):
    ask(client, said)
  with pytest.raises(openai.BadRequestError, match=r'prompt contains .<\|im_'):
    client.completions.create(model='any', prompt='<|im_start|>')
  with pytest.raises(openai.BadRequestError, match='cannot encode'):
    ask(client, [{'role': 'user', 'content': 'ß'}])
  with pytest.raises(openai.BadRequestError, match='holds id 99999'):
    client.completions.create(model='any', prompt=[99999])


def test_not_json(server):
  answer = httpx.post(f'{server.url}/rollouts/x/v1/completions', content='{')
  assert answer.status_code == 400 and 'not JSON' in answer.text
  answer = server.post('/rollouts/x/reward', reward=1, cal=1)
  assert answer.status_code == 400 and 'cal: there is no' in answer.text


def test_rewards(server):
  server.says('a')
  client, key = server.client()
  ask(client)
  reward = f'/rollouts/{key}/reward'
  for body, words in (
    ({'reward': '1'}, 'give a number'),
    ({'reward': 1, 'call': 1}, 'has calls 0 to 0, not 1'),
    ({}, 'give a number'),
  ):
    answer = server.post(reward, **body)
    assert answer.status_code == 400 and words in answer.text
  infinite = httpx.post(f'{server.url}{reward}', content='{"reward": Infinity}')
  assert infinite.status_code == 400 and 'not finite' in infinite.text
  assert server.post(reward, reward=1).status_code == 200
  assert server.post(reward, reward=1.0).status_code == 200
  again = server.post(reward, reward=0)
  assert again.status_code == 400 and 'it was 1.0 before' in again.text
  assert server.rollout(key).reward == 1


def test_ends(server):
  server.says('a')
  client, key = server.client()
  ask(client)
  finish = f'/rollouts/{key}/finish'
  assert server.post(finish, status='done').status_code == 400
  answer = server.post(finish, status='environment_error', error='no disk')
  assert answer.json() == {'status': 'environment_error'}
  with pytest.raises(openai.BadRequestError, match='is over: environment_err'):
    ask(client)
  record.close(server.rollout(key))
  (row,) = rows.of(server.rollout(key))
  assert (row.status, row.error) == ('environment_error', 'no disk')


def test_no_reward_is_not_a_reward_of_zero(server):
  server.says('a')
  client, key = server.client()
  ask(client)
  rollout = server.rollout(key)
  record.close(rollout)
  (row,) = rows.of(rollout)
  assert row.status == episode.REWARD_ERROR and 'nobody told' in row.error
  idle = new('idle')
  record.close(idle)
  (row,) = rows.of(idle)
  assert row.status == episode.ENVIRONMENT_ERROR and not len(row.tokens)


def sample_of(tokens, finish, version=7):
  n = len(tokens)
  return engine.Sample(
    np.array(tokens, np.int32),
    -np.ones(n, np.float32),
    finish,
    np.full(n, version, np.int32),
  )


@pytest.mark.parametrize('stream', [False, True])
@pytest.mark.parametrize('tokens', [[], ids('ab')])
def test_what_is_broken_off_is_no_answer(server, stream, tokens):
  server.says(sample_of(tokens, engine.ABORT), 'whole')
  client, key = server.client()
  with pytest.raises(openai.APIError, match='broke off'):
    list(ask(client, stream=stream))
  assert not server.rollout(key).calls
  assert ask(client).choices[0].message.content == 'whole'
  (call,) = server.rollout(key).calls
  assert call.row == 0 and call.sample.tokens.tolist()[:-1] == ids('whole')


def test_a_client_tries_again_what_was_broken_off(server):
  server.says(sample_of(ids('ab'), engine.ABORT), 'whole')
  client, key = server.client(max_retries=2)
  assert ask(client).choices[0].message.content == 'whole'
  assert len(server.rollout(key).calls) == 1


def test_an_engine_that_contradicts_itself(server):
  short = sample_of(ids('ab'), engine.LENGTH)._replace(logp=-np.ones(3))
  server.says(short)
  client, key = server.client()
  with pytest.raises(openai.InternalServerError, match='must agree'):
    ask(client)
  assert not server.rollout(key).calls


@pytest.mark.parametrize('stream', [False, True])
def test_who_hangs_up_leaves_nothing_running(server, stream):
  server.says('a')
  server.script.pause = 30
  client, key = server.client(timeout=0.4)
  try:
    with pytest.raises(openai.APITimeoutError):
      list(ask(client, stream=stream))
    until = time.monotonic() + 10
    while server.script.running and time.monotonic() < until:
      time.sleep(0.02)
    assert server.script.running == 0
  finally:
    server.script.pause = 0
  assert not server.rollout(key).calls
  ask(client.with_options(timeout=30))
  assert [call.number for call in server.rollout(key).calls] == [0]


def limited(**budgets):
  script = conversations.Script(lambda request: ids('x' * 60))
  limits = LIMITS._replace(**budgets)
  served = made(script, limits=limits)
  return testclient.TestClient(served.app), script, served


def say(client, said, **fields):
  path = '/rollouts/k/v1/chat/completions'
  return client.post(path, json={'model': 'm', 'messages': said, **fields})


def test_what_is_left_of_the_budgets():
  # A prompt of 30, 25 sampled before: min(60 - 25, 100 - 55).
  client, script, served = limited(
    turn_tokens=60, context=100, response_tokens=60
  )
  prompt = ids('x' * 30)
  path = '/rollouts/k/v1/completions'
  client.post(path, json={'prompt': prompt, 'max_tokens': 25})
  (call,) = served.rollouts['k'].calls
  longer = [*prompt, *call.sample.tokens.tolist()]
  client.post(path, json={'prompt': longer, 'max_tokens': None})
  assert [request.max_tokens for request in script.calls] == [25, 35]
  assert len(served.rollouts['k'].rows) == 1
  answer = client.post(path, json={'prompt': prompt})
  assert answer.status_code == 400
  assert answer.json()['error']['code'] == 'context_length_exceeded'
  served.rollouts['k'].grade(0.0)
  record.close(served.rollouts['k'])
  assert served.rollouts['k'].status == episode.MAX_TOKENS


@hypothesis.settings(deadline=None, max_examples=25)
@hypothesis.given(
  st.lists(st.tuples(st.integers(0, 70), st.integers(1, 50)), max_size=6)
)
def test_no_request_leaves_the_context(turns):
  client, script, served = limited(context=200, response_tokens=90)
  said = []
  for told, wanted in turns:
    said.append({'role': 'user', 'content': 'x' * told})
    answer = say(client, said, max_tokens=wanted)
    if answer.status_code != 200:
      assert answer.json()['error']['code'] == 'context_length_exceeded'
      break
    said.append(answer.json()['choices'][0]['message'])
  for request in script.calls:
    assert request.max_tokens >= 1
    assert len(request.tokens) + request.max_tokens <= 200
  if turns and script.calls:
    assert served.rollouts['k'].sampled() <= 90
    assert len(served.rollouts['k'].rows) == 1


def test_too_many_calls():
  client, script, served = limited(max_turns=2)
  assert say(client, USER).status_code == 200
  assert say(client, USER, n=2).status_code == 400
  assert say(client, USER).status_code == 200
  answer = say(client, USER)
  assert answer.json()['error']['code'] == 'max_turns_exceeded'
  assert len(script.calls) == 2
  served.rollouts['k'].grade(1.0)
  record.close(served.rollouts['k'])
  assert served.rollouts['k'].status == episode.MAX_TURNS


def test_what_runs_at_once_shares_the_budgets(server):
  limits = LIMITS._replace(response_tokens=10, max_turns=3)
  script = conversations.Script(lambda request: ids('x' * 60), pause=0.3)
  served = made(script, limits=limits)
  with loopback.served(served.app) as url:
    client = openai.OpenAI(base_url=f'{url}/v1', api_key='k', max_retries=0)
    with concurrent.futures.ThreadPoolExecutor() as pool:
      first = pool.submit(ask, client, n=2, max_tokens=3)
      time.sleep(0.1)
      assert ask(client).choices[0].finish_reason == 'length'
      first.result()
    assert [request.max_tokens for request in script.calls] == [3, 3, 4]
    with pytest.raises(openai.BadRequestError, match='3 times and did 3 times'):
      ask(client)
  rollout = served.rollouts['k']
  assert (rollout.running, rollout.promised) == (0, 0)


def test_an_answer_cut_by_a_limit():
  client, _, served = limited(turn_tokens=5)
  assert say(client, USER).json()['choices'][0]['finish_reason'] == 'length'
  served.rollouts['k'].grade(0.0)
  record.close(served.rollouts['k'])
  assert served.rollouts['k'].status == episode.MAX_TOKENS


def test_an_unknown_syntax():
  settings = proxy_sampling.Settings(
    templates.of(TOKENIZER), 'xml', engine.Sampling(), LIMITS
  )
  with pytest.raises(ValueError, match="no syntax 'xml'; known are hermes"):
    proxy.Proxy(conversations.Script(None), settings, {})
