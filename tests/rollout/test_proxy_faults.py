"""Faults that others had between an agent and a trainer, over real HTTP."""

import contextlib
import json

import conversations
import httpx
import numpy as np
import pytest
import talks

from arl import episode
from arl.models import tokenizers as tokenizers_lib
from arl.rollout import (
  engine,
  loopback,
  proxy,
  record,
  rows,
  strategies,
  templates,
)
from arl.rollout.proxy import sampling as proxy_sampling

LIMITS = strategies.Limits(
  max_turns=50, turn_tokens=400, context=9000, response_tokens=9000
)
TOOL = talks.TOOL


class Agent:
  """An agent of plain HTTP in front of a policy that says given ids."""

  def __init__(self, tokenizer, limits=LIMITS, syntax='hermes'):
    self.tokenizer, self.said, self.next = tokenizer, [], []
    self.script = conversations.Script(lambda request: self.next)
    self.rollout = record.Rollout('k', episode.Task('t', '', {}), 0, (0,))
    settings = proxy_sampling.Settings(
      templates.of(tokenizer), syntax, engine.Sampling(), limits
    )
    self.proxy = proxy.Proxy(self.script, settings, {'k': self.rollout})

  def post(self, path, body):
    return httpx.post(f'{self.url}/rollouts/k/{path}', json=body)

  def tell(self, role, content):
    self.said.append({'role': role, 'content': content})

  def hear(self, says, tools=()):
    """The policy says a text, or ids; gives the choice of the answer."""
    self.next = says
    if isinstance(says, str):
      self.next = self.tokenizer.encode(says, add_special_tokens=False)
    body = {'model': 'm', 'messages': self.said, 'tools': list(tools)}
    answer = self.post('v1/chat/completions', body)
    assert answer.status_code == 200, answer.text
    (choice,) = answer.json()['choices']
    self.said.append(choice['message'])
    return choice

  def rows(self):
    """The rows that are trained on, as an episode each."""
    self.post('reward', {'reward': 1.0})
    record.close(self.rollout)
    return rows.of(self.rollout)


@pytest.fixture
def serve():
  """Serves agents until the test ends."""
  with contextlib.ExitStack() as stack:

    def begin(*how, **more):
      made = Agent(*how, **more)
      made.url = stack.enter_context(loopback.served(made.proxy.app))
      return made

    yield begin


def test_every_new_text_reaches_the_policy_of_a_template_that_strips(serve):
  agent = serve(conversations.family('thinking'))
  answers = ['<think>t</think>one', '<think>so</think>two', 'three']
  for told, says in zip(['u1', 'u2', 'u3'], answers):
    agent.tell('user', told)
    agent.hear(says)
    asked = agent.tokenizer.decode(list(agent.script.calls[-1].tokens))
    assert asked.endswith(f'user\n{told}<|im_end|>\n<|im_start|>assistant\n')
  episodes = agent.rows()
  end = [agent.tokenizer.eos_token_id]
  for one, says, number in zip(episodes, answers, range(3)):
    ids = agent.tokenizer.encode(says, add_special_tokens=False)
    assert one.row == number
    assert one.tokens[one.mask].tolist() == ids + end
  assert [e.rewards.sum() for e in episodes] == [0, 0, 1]


@pytest.mark.parametrize(
  'ids, text', [([2, 4], 'abc'), ([2, 3], 'ab')], ids=['same length', 'shorter']
)
def test_sampled_ids_are_the_ids_that_are_trained_on(serve, ids, text):
  agent = serve(conversations.pairs())
  agent.tell('user', 'c')
  assert agent.hear(ids)['message']['content'] == text
  assert agent.tokenizer.encode(text, add_special_tokens=False) != ids
  agent.tell('user', 'b')
  agent.hear([5])
  first, second = agent.script.calls
  end = agent.tokenizer.eos_token_id
  n = len(first.tokens)
  assert list(second.tokens[n : n + 3]) == [*ids, end]
  (row,) = agent.rows()
  assert row.tokens[row.mask].tolist() == [*ids, end, 5, end]


@pytest.mark.parametrize('printed', [True, False])
@pytest.mark.parametrize('known', [True, False])
def test_a_sequence_begins_once(serve, printed, known):
  template = ("{{ '<s>' }}" if printed else '') + conversations.CHATML
  marks = (*conversations.CHATML_MARKS, '<s>')
  tokenizer = conversations.spelled(template, marks, bos='<s>' if known else '')
  bos = tokenizer.convert_tokens_to_ids('<s>')
  agent = serve(tokenizer)
  agent.tell('user', 'u1')
  agent.hear('a')
  agent.tell('user', 'u2')
  agent.hear('b')
  agent.post('v1/completions', {'prompt': 'raw text'})
  chats, raw = agent.script.calls[:2], agent.script.calls[2]
  for request in chats:
    assert list(request.tokens).count(bos) == printed
    assert (request.tokens[0] == bos) == printed
  assert list(raw.tokens).count(bos) == known
  assert (raw.tokens[0] == bos) == known


@pytest.mark.parametrize('family', ['chatml', 'thinking', 'llama'])
def test_arguments_are_a_mapping_however_they_are_spelled(serve, family):
  agent = serve(conversations.family(family))
  for arguments in ('{"n": 4, "tag": "é"}', {'n': 4, 'tag': 'é'}):
    function = {'name': 'get', 'arguments': arguments}
    call = {'id': 'c', 'type': 'function', 'function': function}
    agent.said = [
      {'role': 'user', 'content': 'q'},
      {'role': 'assistant', 'content': None, 'tool_calls': [call]},
      {'role': 'tool', 'content': 'r', 'tool_call_id': 'c'},
    ]
    agent.hear('fine')
  first, second = agent.script.calls
  assert first.tokens == second.tokens
  text = agent.tokenizer.decode(list(first.tokens))
  assert text.count('{"n": 4, "tag": "é"}') == 1 and '\\' not in text


def test_a_sampled_call_is_not_rendered_again(serve):
  agent = serve(conversations.family('chatml'))
  agent.tell('user', 'q')
  odd = '<tool_call>{"arguments" : {"key":"\\u00e9"}, "name":"get"}</tool_call>'
  choice = agent.hear(odd, [TOOL])
  (call,) = choice['message']['tool_calls']
  assert json.loads(call['function']['arguments']) == {'key': 'é'}
  agent.said.append(
    {'role': 'tool', 'tool_call_id': call['id'], 'content': 'r'}
  )
  agent.hear('so', [TOOL])
  text = agent.tokenizer.decode(list(agent.script.calls[1].tokens))
  assert odd in text and '{"key": "é"}' not in text
  assert len(agent.rows()) == 1


def test_the_budget_is_of_the_whole_trajectory(serve):
  limits = strategies.Limits(
    max_turns=9, turn_tokens=60, context=100, response_tokens=60
  )
  agent = serve(tokenizers_lib.characters(), limits)
  prompt = agent.tokenizer.encode('x' * 30)
  agent.next = agent.tokenizer.encode('y' * 25)
  agent.post('v1/completions', {'prompt': prompt, 'max_tokens': 25})
  agent.post(
    'v1/completions', {'prompt': prompt + agent.next, 'max_tokens': None}
  )
  assert [r.max_tokens for r in agent.script.calls] == [25, 35]
  agent.next = agent.tokenizer.encode('y' * 99)
  body = {'prompt': prompt + agent.next[:25], 'max_tokens': None}
  agent.post('v1/completions', body)
  answer = agent.post('v1/completions', body)
  assert answer.json()['error']['code'] == 'context_length_exceeded'
  assert len(agent.script.calls) == 3  # nothing left: nothing asked
  assert {row.status for row in agent.rows()} == {episode.MAX_TOKENS}


def test_what_is_broken_off_is_not_graded(serve):
  agent = serve(conversations.family('chatml'))
  agent.tell('user', 'q')
  ids = agent.tokenizer.encode('abc')
  broken = engine.Sample(
    np.array(ids), -np.ones(3, np.float32), engine.ABORT, np.full(3, 7)
  )
  agent.next = broken
  body = {'model': 'm', 'messages': agent.said}
  answer = agent.post('v1/chat/completions', body)
  assert answer.status_code == 503 and not agent.rollout.calls
  streamed = agent.post('v1/chat/completions', {**body, 'stream': True})
  assert '"interrupted"' in streamed.text and '[DONE]' not in streamed.text
  assert agent.rows()[0].status == episode.ENVIRONMENT_ERROR


GOOD = '<tool_call>{"name":"get","arguments":{"key":"k"}}</tool_call>'


@pytest.mark.parametrize(
  'says, arguments, content',
  [
    (
      '<tool_call>{"name":"get","arguments":{"p":{"a":[1,2]},'
      f'"t":"close with </tool_call> ok"}}}}</tool_call>{GOOD}',
      [{'p': {'a': [1, 2]}, 't': 'close with </tool_call> ok'}, {'key': 'k'}],
      None,
    ),
    (
      '<tool_call>{"name":"get","arguments":{"k":1},}</tool_call>',
      [],
      '<tool_call>{"name":"get","arguments":{"k":1},}</tool_call>',
    ),
    (
      r'<tool_call>{"name":"get","arguments":{"s":"é \n \" {"}}</tool_call>',
      [{'s': 'é \n " {'}],
      None,
    ),
    (
      f'{GOOD}<tool_call>{{"name":}}</tool_call>',
      [{'key': 'k'}],
      '<tool_call>{"name":}</tool_call>',
    ),
    (GOOD[:-15], [], GOOD[:-15]),
    (f'<think>{GOOD}</think>so', [], 'so'),
    (
      r'<tool_call>{"name":"get","arguments":"{\"key\": 3}"}</tool_call>',
      [{'key': 3}],
      None,
    ),
  ],
)
def test_calls_are_what_was_written(serve, says, arguments, content):
  agent = serve(conversations.family('chatml'))
  agent.tell('user', 'q')
  choice = agent.hear(says, [TOOL])
  message = choice['message']
  found = message.get('tool_calls', [])
  assert [json.loads(c['function']['arguments']) for c in found] == arguments
  assert message['content'] == content
  assert choice['finish_reason'] == ('tool_calls' if found else 'stop')
