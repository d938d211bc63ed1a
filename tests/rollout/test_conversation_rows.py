"""Recorded conversations as episodes: ids, masks, rows, what is refused."""

import conversations as chats
import numpy as np
import pytest

from arl import episode
from arl.envs import base, tools
from arl.models import tokenizers
from arl.rollout import chat, conversations, engine, scripted, strategies

USER = {'role': 'user', 'content': 'a?'}
CALL = {'role': 'assistant', 'content': 'f(1)'}
SEEN = {'role': 'tool', 'content': '42'}
SAID = {'role': 'assistant', 'content': '=42'}


def task(*messages, train=None, tools=(), weight=1.0):
  mine = [m['role'] == 'assistant' for m in messages]
  data = {
    'name': 'some:1',
    'messages': [*messages],
    'train': train or mine,
    'tools': [*tools],
    'weight': weight,
  }
  return episode.Task('conversations/some:1', 'a?', data)


def run(strategy, made, one, context=400):
  return strategy(
    scripted.ScriptedEngine(lambda request: [], 2),  # it is not asked
    None,
    made,
    [one],
    strategies.Plan(
      1, engine.Sampling(), strategies.Limits(4, 8, context, 64), (0,)
    ),
  )


def parts(made, one, column):
  """The text where a column is true, gaps as bars."""
  pieces = made.pieces(one.tokens)
  shown = [p if on else '|' for p, on in zip(pieces, column)]
  return ''.join(p for p, q in zip(shown, ['', *shown]) if not p == q == '|')


@pytest.fixture(scope='module')
def small():
  return chat.chat(tokenizers.characters())


LONG = (USER, CALL, SEEN, SAID)


def test_every_turn_of_the_assistant_is_learnt(small):
  (one,) = run(conversations.whole, small, task(*LONG, weight=2.0))
  assert ''.join(small.pieces(one.tokens)) == (
    '<|user|>a?<|assistant|>f(1)<|end|><|tool|>42<|assistant|>=42<|end|>'
  )
  assert parts(small, one, one.mask) == '|f(1)<|end|>|=42<|end|>'
  assert np.isnan(one.logp[one.mask]).all() and not one.logp[~one.mask].any()
  assert one.rewards.tolist() == [0] * (len(one.tokens) - 1) + [1]
  assert one.turn[one.mask].tolist() == [0] * 5 + [1] * 4
  assert not one.extras['observed'].any()
  assert set(one.extras['example_weight']) == {2.0}
  assert [e.action for e in one.exchanges] == ['f(1)', '=42']


def test_a_rollout_would_have_had_the_same_ids(small):
  (one,) = run(conversations.whole, small, task(*LONG))
  ids = small.opening(episode.Task('', 'a?', {})) + small.action('f(1)')
  assert one.tokens.tolist() == ids + small.reply('42') + small.action('=42')


def test_a_turn_that_is_only_read(small):
  one = task(*LONG, train=[False, False, False, True])
  (made,) = run(conversations.whole, small, one)
  assert parts(small, made, made.mask) == '|=42<|end|>'


def test_observations_are_marked(small):
  (one,) = run(conversations.with_observations, small, task(*LONG))
  observed = one.extras['observed']
  assert parts(small, one, observed) == '|<|tool|>42<|assistant|>|'
  (plain,) = run(conversations.whole, small, task(*LONG))
  np.testing.assert_array_equal(one.mask & ~observed, plain.mask)
  np.testing.assert_array_equal(one.tokens, plain.tokens)
  assert (one.mask >= observed).all()


def test_calls_as_the_template_prints_them():
  function = {'name': 'f', 'arguments': '{"x": 1}'}
  call = {'type': 'function', 'id': 'abc', 'function': function}
  tools = [{'type': 'function', 'function': {'name': 'f', 'parameters': {}}}]
  made = chat.chat(chats.family('chatml'), observation_role='user')
  asked = {'role': 'assistant', 'content': '', 'tool_calls': [call]}
  one = task(USER, asked, {**SEEN, 'tool_call_id': 'abc'}, SAID, tools=tools)
  (row,) = run(conversations.whole, made, one)
  text = parts(made, row, row.mask)
  assert text == (
    '|\n<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
    '<|im_end|>|=42<|im_end|>'
  )
  assert '"parameters"' in ''.join(made.pieces(row.tokens))


def test_thoughts_that_are_stripped_begin_another_row():
  made = chat.chat(chats.family('chatml'), observation_role='user')
  made = made._replace(tokenizer=chats.family('thinking'))
  thought = {'role': 'assistant', 'content': '<think>\nhm\n</think>\n\nb'}
  first, second = run(
    conversations.whole, made, task(USER, thought, USER, SAID)
  )
  assert (first.row, second.row) == (0, 1)
  assert '<think>\nhm\n</think>\n\nb<|im_end|>' in parts(
    made, first, first.mask
  )
  assert parts(made, second, second.mask).endswith('=42<|im_end|>')
  assert 'hm' not in ''.join(made.pieces(second.tokens))
  assert not first.rewards.any() and second.rewards[-1] == 1
  assert second.turn[second.mask].tolist() == [1] * second.mask.sum()


@pytest.mark.parametrize(
  'one, message',
  [
    (
      task(USER, {**SAID, 'content': '<|end|>'}),
      'some:1: messages[1] contains',
    ),
    (task(USER, {**SAID, 'content': '\u00e9'}), 'some:1: the tokenizer cannot'),
    (task(USER, {**SAID, 'mood': 'b'}), 'some:1: messages[1].mood'),
    (task(USER, {**SAID, 'content': 'b' * 60}), 'some:1 has 65 tokens or more'),
  ],
)
def test_records_are_refused_by_name(small, one, message):
  with pytest.raises(ValueError) as caught:
    run(conversations.whole, small, one, context=64)
  assert str(caught.value).startswith(message)


def test_a_task_of_the_environment_that_judges_is_played(small):
  env = tools.make()
  one = env.task(base.HELD_OUT, 0)
  ids = small.action('=123')[:-1]
  plan = strategies.Plan(
    2, engine.Sampling(), strategies.Limits(4, 8, 99, 64), (0,)
  )
  asked = scripted.ScriptedEngine(lambda request: ids, 110)
  made = conversations.whole(asked, env, small, [one, task(*LONG)], plan)
  assert [e.task.id for e in made] == [one.id] * 2 + [
    'conversations/some:1'
  ] * 2
  assert [small.decode(e.tokens[e.mask]) for e in made[:2]] == ['=123'] * 2
  assert np.isfinite(made[0].logp).all()
  assert set(made[0].extras['example_weight']) == {1.0}
