"""The embedded server's OpenAI endpoints, with OpenAI's own client too."""

import numpy as np
import openai
import pytest

from tests import tiny
from tests.rollout import serving

HELLO = [{'role': 'user', 'content': 'ab?'}]
MESSAGES = [*HELLO, {'role': 'assistant', 'content': 'c'}, *HELLO]


@pytest.fixture(scope='module')
def client(tmp_path_factory):
  folder = tmp_path_factory.mktemp('m') / 'model'
  tiny.write_model(folder, shape=tiny.size(8))
  with serving.running(folder) as client:
    yield client


@pytest.fixture(scope='module')
def user(client):
  with openai.OpenAI(base_url=f'{client.base_url}/v1', api_key='none') as user:
    yield user


def chat(client, **fields):
  body = {'messages': HELLO, 'max_tokens': 8, **fields}
  answer = client.post('/v1/chat/completions', json=body)
  assert answer.status_code == 200, answer.text
  return answer.json()


def test_ids_are_told_by_their_names(client):
  made = chat(client, return_token_ids=True, logprobs=True, seed=3, stop='zz')
  (choice,) = made['choices']
  # The template: contents, and '!' after an assistant's.
  assert choice['prompt_token_ids'] == [2, 3, 6]
  ids = choice['response_token_ids']
  told = choice['logprobs']['content']
  assert len(told) == len(ids) == made['usage']['completion_tokens']
  assert made['usage']['total_tokens'] == 3 + len(ids)
  assert made['metadata']['weight_version'] == '0'
  body = {
    'input_ids': [2, 3, 6],
    'return_logprob': True,
    'sampling_params': {'max_new_tokens': 8, 'sampling_seed': 3},
  }
  same = client.post('/generate', json=body).json()
  assert same['output_ids'] == ids
  logp = [e[0] for e in same['meta_info']['output_token_logprobs']]
  np.testing.assert_allclose([t['logprob'] for t in told], logp, atol=1e-5)
  reason = same['meta_info']['finish_reason']
  assert choice['finish_reason'] == reason['type']
  assert choice['matched_stop'] == reason.get('matched')
  text = client.post(
    '/v1/completions',
    json={
      'prompt': 'ab?',
      'max_tokens': 8,
      'seed': 3,
      'return_token_ids': True,
    },
  ).json()
  assert text['choices'][0]['token_ids'] == ids
  assert text['choices'][0]['prompt_token_ids'] == [2, 3, 6]


def test_ids_given_replace_the_template(client):
  made = chat(client, input_ids=[5, 5], return_prompt_token_ids=True)
  assert made['choices'][0]['prompt_token_ids'] == [5, 5]
  assert 'response_token_ids' not in made['choices'][0]
  long = chat(client, messages=MESSAGES, return_prompt_token_ids=True)
  assert long['choices'][0]['prompt_token_ids'] == [2, 3, 6, 4, 1, 2, 3, 6]


def test_several_choices_differ(client):
  made = chat(client, n=4, seed=1, max_tokens=16, ignore_eos=True)
  texts = [choice['message']['content'] for choice in made['choices']]
  assert len(set(texts)) == 4
  assert [choice['index'] for choice in made['choices']] == [0, 1, 2, 3]
  assert made['usage']['prompt_tokens'] == 3
  assert made['usage']['completion_tokens'] == 64


def test_a_stream_says_the_same(client):
  fields = {'seed': 5, 'max_tokens': 20, 'ignore_eos': True, 'n': 2}
  whole = chat(client, **fields, return_token_ids=True)
  answer = client.post(
    '/v1/chat/completions',
    json={
      'messages': HELLO, **fields, 'stream': True, 'return_token_ids': True,
      'logprobs': True, 'stream_options': {'include_usage': True},
    },
  )  # fmt: skip
  pieces = serving.events(answer)
  assert pieces.pop()['usage'] == whole['usage'] | {
    'prompt_tokens_details': {'cached_tokens': 4}
  }
  for choice in whole['choices']:
    mine = [
      piece['choices'][0]
      for piece in pieces
      if piece['choices'][0]['index'] == choice['index']
    ]
    assert mine[0]['delta']['role'] == 'assistant'
    text = ''.join(piece['delta']['content'] for piece in mine)
    assert text == choice['message']['content']
    assert mine[-1]['finish_reason'] == 'length'
    assert mine[-1]['response_token_ids'] == choice['response_token_ids']
    told = [p['logprobs']['content'] for p in mine if p.get('logprobs')]
    assert sum(map(len, told)) == 20


def test_a_stream_holds_back_what_may_be_a_stop(client):
  fields = {'seed': 6, 'max_tokens': 24, 'ignore_eos': True}
  text = chat(client, **fields)['choices'][0]['message']['content']
  stop = text[5:8]
  body = {'messages': HELLO, **fields, 'stop': [stop], 'stream': True}
  pieces = serving.events(client.post('/v1/chat/completions', json=body))
  said = ''.join(p['choices'][0]['delta'].get('content', '') for p in pieces)
  assert said == text[: text.find(stop)]
  last = pieces[-1]['choices'][0]
  assert (last['finish_reason'], last['matched_stop']) == ('stop', stop)


def test_the_client_of_openai(user):
  answer = user.chat.completions.create(
    model='any', messages=HELLO, max_tokens=6, seed=2, temperature=0.5,
    logprobs=True, top_logprobs=2, n=2,
  )  # fmt: skip
  assert len(answer.choices) == 2 and answer.usage.prompt_tokens == 3
  told = answer.choices[0].logprobs.content
  assert len(told[0].top_logprobs) == 2
  pieces = list(
    user.chat.completions.create(
      model='any', messages=HELLO, max_tokens=6, seed=2, stream=True
    )
  )
  assert pieces[-1].choices[0].finish_reason in ('stop', 'length')
  assert user.models.list().data[0].id
  text = user.completions.create(model='any', prompt=[2, 3], max_tokens=4)
  assert text.usage.completion_tokens <= 4
  with pytest.raises(openai.BadRequestError, match='did you mean'):
    user.chat.completions.create(
      model='any', messages=HELLO, extra_body={'max_token': 3}
    )


REFUSED = [
  ({'messages': []}, 'a list of at least one'),
  ({'messages': [{'content': 'a'}]}, 'a message needs a role'),
  ({'messages': [{'role': 'user', 'content': 'Z'}]}, 'refuses the messages'),
  ({'tool_choice': 'required'}, 'tool_choice is .required.'),
  ({'response_format': {'type': 'json_object'}}, 'response_format'),
  ({'presence_penalty': 0.5}, 'presence_penalty = 0.5 cannot'),
  ({'prompt': 'a'}, "unknown field 'prompt'"),
  ({'max_tokens': 30}, 'You requested a total of 33'),
  ({'logprobs': 3}, 'logprobs should be bool'),
  ({'seed': 2**40}, 'whole numbers from 0'),
  ({'stream_options': {'x': 1}}, "unknown field 'x'"),
]


@pytest.mark.parametrize('fields, message', REFUSED)
def test_what_cannot_be_honoured_is_refused(client, fields, message):
  body = {'messages': HELLO, **fields}
  answer = client.post('/v1/chat/completions', json=body)
  assert answer.status_code == 400
  with pytest.raises(ValueError, match=message):
    raise ValueError(answer.json()['error']['message'])


def test_tools_reach_the_template(client):
  tokenizer = client.serving.model.tokenizer
  kept = tokenizer.chat_template
  tokenizer.chat_template = (
    '{% for tool in tools or [] %}{{ tool.function.name }}{% endfor %}'
    '{{ messages[0].content }}{{ ending }}'
  )
  tools = [{'type': 'function', 'function': {'name': 'dd', 'parameters': {}}}]
  try:
    extra = {'ending': '?'}
    for choice, ids in (('auto', [5, 5, 2, 3, 6, 6]), ('none', [2, 3, 6, 6])):
      made = chat(
        client, tools=tools, tool_choice=choice, chat_template_kwargs=extra,
        return_token_ids=True,
      )  # fmt: skip
      assert made['choices'][0]['prompt_token_ids'] == ids
  finally:
    tokenizer.chat_template = kept
