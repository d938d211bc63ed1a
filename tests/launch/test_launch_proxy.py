"""The proxy in front of the embedded engine, as the launcher makes it."""

import openai
import pytest
import tiny

from arl.models import tokenizers
from arl.rollout import loopback
from launch import proxy


@pytest.fixture(scope='module')
def served(tmp_path_factory):
  tokenizer = tokenizers.characters()
  folder = tmp_path_factory.mktemp('models') / 'spelling'
  tiny.write_model(folder, shape=tiny.size(len(tokenizer)))
  tokenizers.save(tokenizer, folder)
  made = proxy.make(str(folder), slots=2, context=40, turn_tokens=6, calls=3)
  with loopback.served(made.app) as url:
    yield url, made


def test_an_agent_in_front_of_the_engine(served):
  url, made = served
  client = openai.OpenAI(base_url=f'{url}/v1', api_key='first', max_retries=0)
  said = [{'role': 'user', 'content': 'go'}]
  answer = client.chat.completions.create(model='any', messages=said)
  pieces = client.chat.completions.create(
    model='any', messages=said, stream=True, seed=7
  )
  text = ''.join(piece.choices[0].delta.content or '' for piece in pieces)
  first, second = made.rollouts['first'].calls
  assert first.text == answer.choices[0].message.content
  assert second.text == text
  assert len(made.rollouts['first'].rows) == 2
  assert 1 <= len(second.sample.tokens) <= 6
  assert second.sample.versions.tolist() == [0] * len(second.sample.tokens)


def test_keys_have_randomness_of_their_own():
  paths = {proxy.admit(key).path for key in ('a', 'b', 'c')}
  assert len(paths) == 3 and all(0 <= n < 2**31 for (n,) in paths)
  assert proxy.admit('a').path == proxy.admit('a').path
