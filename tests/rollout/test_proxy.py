"""The proxy over real HTTP: an unmodified client, and what is written down."""

import json

import conversations
import httpx
import numpy as np
import openai
import proxies
import pytest
from starlette import testclient

from arl import episode
from arl.rollout import record, rows


@pytest.fixture(scope='module')
def server():
  with proxies.served() as made:
    yield made


def test_a_tool_loop_is_written_down(server):
  server.says(f'let me see {proxies.CALL}', 'it is 3')
  client, key = server.client()
  first = proxies.ask(client, tools=[proxies.TOOL])
  (choice,) = first.choices
  assert choice.finish_reason == 'tool_calls'
  assert choice.message.content == 'let me see'
  (call,) = choice.message.tool_calls
  assert json.loads(call.function.arguments) == {'key': 'é'}
  result = {'role': 'tool', 'tool_call_id': call.id, 'content': '3'}
  second = proxies.ask(
    client, [*proxies.USER, choice.message, result], tools=[proxies.TOOL]
  )
  assert second.choices[0].message.content == 'it is 3'
  assert second.choices[0].finish_reason == 'stop'
  a, b = server.script.calls
  said = [
    *proxies.ids(f'let me see {proxies.CALL}'),
    proxies.TOKENIZER.eos_token_id,
  ]
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
  assert [x.action for x in row.exchanges] == [
    f'let me see {proxies.CALL}',
    'it is 3',
  ]


def test_the_record_is_lines_of_json(server):
  server.says('a', 'b')
  client, key = server.client()
  answer = proxies.ask(client).choices[0].message
  proxies.ask(client, [*proxies.USER, answer, *proxies.USER])
  text = httpx.get(f'{server.url}/rollouts/{key}').text
  head, first, second = map(json.loads, text.splitlines())
  assert head['calls'] == 2 and head['rows'] == 1 and head['status'] == ''
  assert (first['parent'], second['parent']) == (None, 0)
  assert first['tokens'] == [*proxies.ids('a'), proxies.TOKENIZER.eos_token_id]
  assert len(first['logp']) == len(first['versions']) == 2
  assert second['start'] == len(second['prompt'])
  assert second['context'] != first['context']


def test_the_key_may_be_the_api_key(server):
  server.says('a')
  client = openai.OpenAI(base_url=f'{server.url}/v1', api_key='mine')
  proxies.ask(client)
  assert len(server.rollout('mine').calls) == 1
  (model,) = client.models.list().data
  assert model.id == 'policy'


@pytest.mark.parametrize(
  'said',
  [
    'fine',
    f'see {proxies.CALL}',
    '<think>hm</think>\nso',
    '<think>hm',
    '',
    'é\n<think',
  ],
)
@pytest.mark.parametrize('tools', [[proxies.TOOL], []])
def test_pieces_are_the_whole(server, said, tools):
  server.says(said)
  client, key = server.client()
  whole = proxies.ask(client, tools=tools)
  pieces = list(
    proxies.ask(
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
  message = proxies.ask(client).choices[0].message
  assert (message.reasoning_content, message.content) == ('hm', 'so')


def test_calls_may_be_switched_off(server):
  server.says(proxies.CALL)
  client, _ = server.client()
  message = (
    proxies.ask(client, tools=[proxies.TOOL], tool_choice='none')
    .choices[0]
    .message
  )
  assert message.content == proxies.CALL and not message.tool_calls


def test_a_broken_call_stays_in_the_content(server):
  broken = '<tool_call>{"name":}</tool_call>'
  server.says(f'{broken}{proxies.CALL}')
  client, _ = server.client()
  message = proxies.ask(client, tools=[proxies.TOOL]).choices[0].message
  assert message.content == broken and len(message.tool_calls) == 1


@pytest.mark.parametrize('stream', [False, True])
def test_several_samples(server, stream):
  server.says('a', 'b', 'c')
  client, key = server.client()
  answer = proxies.ask(client, n=3, stream=stream)
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
  answer = proxies.ask(client, stop=['\nObservation:', 'zzz'], stream=stream)
  if stream:
    text = ''.join(piece.choices[0].delta.content or '' for piece in answer)
  else:
    text = answer.choices[0].message.content
    assert answer.choices[0].finish_reason == 'stop'
  assert text == 'one'
  (call,) = server.rollout(key).calls
  assert call.sample.tokens.tolist() == proxies.ids('one\nObservation:')
  assert len(call.sample.logp) == len(call.sample.versions) == 16
  assert server.script.running == 0  # the engine need not go on
  server.says('so')
  proxies.ask(
    client,
    [*proxies.USER, {'role': 'assistant', 'content': text}, *proxies.USER],
  )
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

  served = proxies.made(
    Late(lambda request: proxies.ids('one, two')), experts=True
  )
  client = testclient.TestClient(served.app)
  answer = proxies.say(client, proxies.USER, stop=[','])
  assert answer.json()['choices'][0]['message']['content'] == 'one'
  rollout = served.rollouts['k']
  rollout.grade(1.0)
  record.close(rollout)
  (row,) = rows.of(rollout)
  sampled = row.tokens[row.mask].tolist()
  assert sampled == proxies.ids('one,')
  assert set(row.extras['rollout_version'][row.mask]) == {7}
  chosen = row.extras['routed_experts']
  assert chosen.shape == (len(row.tokens), 2, 2)
  assert np.all(chosen[:-1] == 0) and np.all(chosen[-1] == -1)


def test_log_probs(server):
  server.says('ab')
  client, _ = server.client()
  content = proxies.ask(client, logprobs=True).choices[0].logprobs.content
  assert [one.token for one in content] == ['a', 'b', '<|im_end|>']
  assert [one.logprob for one in content] == [-0.5, -0.515625, -0.53125]
  answer = client.completions.create(model='m', prompt='x', logprobs=0)
  told = answer.choices[0].logprobs
  assert told.tokens == ['a', 'b', '<|im_end|>']
  assert told.token_ids == [*proxies.ids('ab'), proxies.TOKENIZER.eos_token_id]


@pytest.mark.parametrize('prompt', ['hello', proxies.ids('hello')])
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
  assert list(server.script.calls[0].tokens) == proxies.ids('hello')
  (call,) = server.rollout(key).calls
  assert not call.limited  # it is what the agent asked for


def test_randomness(server):
  server.says('a')
  client, _ = server.client()
  proxies.ask(client)
  proxies.ask(client)
  proxies.ask(client, seed=99)
  proxies.ask(client, seed=99, n=2)
  paths = [request.path for request in server.script.calls]
  assert [path[-1] for path in paths] == [0, 1, 99, 99, 100]
  assert len({len(path) for path in paths}) == 1
