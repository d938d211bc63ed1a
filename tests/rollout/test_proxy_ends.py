"""How calls and rollouts end: rewards, limits, broken answers, hang-ups."""

import concurrent.futures
import time

import conversations
import httpx
import hypothesis
import hypothesis.strategies as st
import numpy as np
import openai
import proxies
import pytest
from starlette import testclient

from arl import episode
from arl.rollout import engine, loopback, record, rows


@pytest.fixture(scope='module')
def server():
  with proxies.served() as made:
    yield made


def test_rewards(server):
  server.says('a')
  client, key = server.client()
  proxies.ask(client)
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
  proxies.ask(client)
  finish = f'/rollouts/{key}/finish'
  assert server.post(finish, status='done').status_code == 400
  answer = server.post(finish, status='environment_error', error='no disk')
  assert answer.json() == {'status': 'environment_error'}
  with pytest.raises(openai.BadRequestError, match='is over: environment_err'):
    proxies.ask(client)
  record.close(server.rollout(key))
  (row,) = rows.of(server.rollout(key))
  assert (row.status, row.error) == ('environment_error', 'no disk')


def test_no_reward_is_not_a_reward_of_zero(server):
  server.says('a')
  client, key = server.client()
  proxies.ask(client)
  rollout = server.rollout(key)
  record.close(rollout)
  (row,) = rows.of(rollout)
  assert row.status == episode.REWARD_ERROR and 'nobody told' in row.error
  idle = proxies.new('idle')
  record.close(idle)
  (row,) = rows.of(idle)
  assert row.status == episode.ENVIRONMENT_ERROR and not len(row.tokens)


def test_rows_of_what_goes_on(server):
  with pytest.raises(ValueError, match="'k' is not closed"):
    rows.of(proxies.new('k'))


@pytest.mark.parametrize('stream', [False, True])
@pytest.mark.parametrize('tokens', [[], proxies.ids('ab')])
def test_what_is_broken_off_is_no_answer(server, stream, tokens):
  server.says(proxies.sample_of(tokens, engine.ABORT), 'whole')
  client, key = server.client()
  with pytest.raises(openai.APIError, match='broke off'):
    list(proxies.ask(client, stream=stream))
  assert not server.rollout(key).calls
  assert proxies.ask(client).choices[0].message.content == 'whole'
  (call,) = server.rollout(key).calls
  assert call.row == 0 and call.sample.tokens.tolist()[:-1] == proxies.ids(
    'whole'
  )


def test_a_client_tries_again_what_was_broken_off(server):
  server.says(proxies.sample_of(proxies.ids('ab'), engine.ABORT), 'whole')
  client, key = server.client(max_retries=2)
  assert proxies.ask(client).choices[0].message.content == 'whole'
  assert len(server.rollout(key).calls) == 1


def test_an_engine_that_contradicts_itself(server):
  short = proxies.sample_of(proxies.ids('ab'), engine.LENGTH)._replace(
    logp=-np.ones(3)
  )
  server.says(short)
  client, key = server.client()
  with pytest.raises(openai.InternalServerError, match='must agree'):
    proxies.ask(client)
  assert not server.rollout(key).calls


@pytest.mark.parametrize('stream', [False, True])
def test_who_hangs_up_leaves_nothing_running(server, stream):
  server.says('a')
  server.script.pause = 30
  client, key = server.client(timeout=0.4)
  try:
    with pytest.raises(openai.APITimeoutError):
      list(proxies.ask(client, stream=stream))
    until = time.monotonic() + 10
    while server.script.running and time.monotonic() < until:
      time.sleep(0.02)
    assert server.script.running == 0
  finally:
    server.script.pause = 0
  assert not server.rollout(key).calls
  proxies.ask(client.with_options(timeout=30))
  assert [call.number for call in server.rollout(key).calls] == [0]


def limited(**budgets):
  script = conversations.Script(lambda request: proxies.ids('x' * 60))
  limits = proxies.LIMITS._replace(**budgets)
  served = proxies.made(script, limits=limits)
  return testclient.TestClient(served.app), script, served


def test_what_is_left_of_the_budgets():
  # A prompt of 30, 25 sampled before: min(60 - 25, 100 - 55).
  client, script, served = limited(
    turn_tokens=60, context=100, response_tokens=60
  )
  prompt = proxies.ids('x' * 30)
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
    answer = proxies.say(client, said, max_tokens=wanted)
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
  assert proxies.say(client, proxies.USER).status_code == 200
  assert proxies.say(client, proxies.USER, n=2).status_code == 400
  assert proxies.say(client, proxies.USER).status_code == 200
  answer = proxies.say(client, proxies.USER)
  assert answer.json()['error']['code'] == 'max_turns_exceeded'
  assert len(script.calls) == 2
  served.rollouts['k'].grade(1.0)
  record.close(served.rollouts['k'])
  assert served.rollouts['k'].status == episode.MAX_TURNS


def test_what_runs_at_once_shares_the_budgets():
  limits = proxies.LIMITS._replace(response_tokens=10, max_turns=3)
  script = conversations.Script(
    lambda request: proxies.ids('x' * 60), pause=1.0
  )
  served = proxies.made(script, limits=limits)
  with loopback.served(served.app) as url:
    client = openai.OpenAI(base_url=f'{url}/v1', api_key='k', max_retries=0)
    with concurrent.futures.ThreadPoolExecutor() as pool:
      first = pool.submit(proxies.ask, client, n=2, max_tokens=3)
      while script.running < 2:
        time.sleep(0.01)
      assert proxies.ask(client).choices[0].finish_reason == 'length'
      first.result()
    assert [request.max_tokens for request in script.calls] == [3, 3, 4]
    with pytest.raises(openai.BadRequestError, match='3 times and did 3 times'):
      proxies.ask(client)
  rollout = served.rollouts['k']
  assert (rollout.running, rollout.promised) == (0, 0)


def test_an_answer_cut_by_a_limit():
  client, _, served = limited(turn_tokens=5)
  assert (
    proxies.say(client, proxies.USER).json()['choices'][0]['finish_reason']
    == 'length'
  )
  served.rollouts['k'].grade(0.0)
  record.close(served.rollouts['k'])
  assert served.rollouts['k'].status == episode.MAX_TOKENS
