"""Prompts of conversations: sampled ids stay, until a turn is rewritten."""

import json

import conversations
import hypothesis
import hypothesis.strategies as st
import pytest
import talks

from arl import episode
from arl.models import tokenizers as tokenizers_lib
from arl.rollout import chat, record, rows, templates


@pytest.mark.parametrize('name', conversations.FAMILIES)
def test_a_tool_loop_is_one_row(name):
  one = talks.talk(name)
  one.tell('system', 'be brief')
  one.tell('user', 'pin of abc?')
  call = talks.CALL[conversations.FAMILIES[name][2]]
  thought = {'thinking': '<think>\nhm\n</think>\n\n', 'opened': 'hm</think>'}
  said = thought.get(name, '') + call
  first = one.answer(said)
  one.tell('tool', '731', tool_call_id='x')
  second = one.answer(thought.get(name, '') + 'so 731')
  assert one.said[2]['tool_calls'][0]['function']['name'] == 'get'
  if name == 'silent':  # the wrapper around nothing is gone in a tool loop
    assert [first.row, second.row] == [0, 1]
    return
  assert [first.row, second.row] == [0, 0]
  ids = one.tokenizer.encode(said, add_special_tokens=False)
  row = one.rollout.rows[0]
  assert row[first.start : first.start + len(ids) + 1] == [*ids, *one.stop]
  assert one.text(0).count('731') == 2  # the tool's, and the policy's


def test_a_user_ends_the_thoughts():
  one = talks.talk('thinking')
  one.tell('user', 'u1')
  one.answer('<think>a</think>b')
  one.tell('user', 'u2')
  one.answer('plain')  # no thought: nothing to strip
  one.tell('user', 'u3')
  one.answer('<think>c</think>d')
  one.tell('tool', 'e')
  one.answer('f')
  assert [call.row for call in one.rollout.calls] == [0, 1, 1, 1]
  assert one.text(1).split('<|im_start|>')[1:] == [
    'user\nu1<|im_end|>\n',
    'assistant\nb<|im_end|>\n',
    'user\nu2<|im_end|>\n',
    'assistant\nplain<|im_end|>\n',
    'user\nu3<|im_end|>\n',
    'assistant\n<think>c</think>d<|im_end|>\n',
    'user\n<tool_response>\ne\n</tool_response><|im_end|>\n',
    'assistant\nf<|im_end|>',
  ]


def test_a_reminder_in_a_tool_loop_strips_its_thoughts():
  one = talks.talk('thinking')
  one.tell('user', 'u1')
  one.answer('<think>a</think>b')
  one.tell('tool', 't1')
  one.tell('user', 'mind the time')
  one.answer('c')
  assert [call.row for call in one.rollout.calls] == [0, 1]
  assert 'mind the time' in one.text(1) and 'think' not in one.text(1)


def test_an_empty_wrapper_that_is_dropped():
  one = talks.talk('thinking')
  one.tell('user', 'u1')
  one.answer('<think>\n\n</think>\n\nb')
  one.tell('user', 'u2')
  one.answer('c')
  assert [call.row for call in one.rollout.calls] == [0, 1]
  one = talks.talk('silent')
  one.tell('user', 'u1')
  one.answer('b')
  one.tell('user', 'u2')
  one.answer('c')
  assert [call.row for call in one.rollout.calls] == [0, 1]
  assert one.text(0).endswith('<think>\n\n</think>\n\nb<|im_end|>')
  assert 'assistant\nb<|im_end|>' in one.text(1)


def test_a_tool_message_that_joins_another():
  one = talks.talk('merging')
  one.tell('user', 'u1')
  one.answer('b')
  one.tell('tool', 't1')
  before = one.answer('c')
  one.said.pop()  # the agent forgets the answer, and tells one result more
  one.tell('tool', 't2')
  after = one.answer('d')
  assert [before.row, after.row] == [0, 1]
  assert one.text(1).count('<|im_start|>user') == 2
  assert after.prompt[: before.start - 20] == before.prompt[: before.start - 20]


def test_a_retried_prompt_is_a_row_beside():
  one = talks.talk('chatml')
  one.tell('user', 'u1')
  one.answer('a')
  one.tell('user', 'u2')
  one.answer('b')
  one.said.pop()
  retried = one.answer('c')
  one.tell('user', 'u3')
  assert one.answer('d').row == retried.row == 1
  assert [call.start for call in one.rollout.calls][2] == len(
    one.rollout.calls[1].prompt
  )


def test_an_agent_within_an_agent_has_its_own_row():
  one = talks.talk('chatml')
  one.tell('system', 'lead')
  one.tell('user', 'u1')
  one.answer('a')
  lead, one.said = one.said, []
  one.tell('system', 'help')
  one.tell('user', 'u1')
  one.answer('b')
  one.tell('user', 'u2')
  one.answer('c')
  one.said = lead
  one.tell('user', 'c')
  one.answer('d')
  assert [call.row for call in one.rollout.calls] == [0, 1, 1, 0]
  one.rollout.grade(2.0)
  record.close(one.rollout)
  help, lead = rows.of(one.rollout)
  assert [help.row, lead.row] == [0, 1]
  assert (help.rewards.sum(), lead.rewards[-1]) == (0, 2)  # it spoke last
  assert help.turn[help.mask].tolist() == [1, 1, 2, 2]
  assert lead.turn[lead.mask].tolist() == [0, 0, 3, 3]


def test_an_edited_answer_is_text():
  one = talks.talk('chatml')
  one.tell('user', 'u1')
  one.answer('ab')
  one.said[-1] = {**one.said[-1], 'content': 'aX'}
  one.tell('user', 'u2')
  one.answer('c')
  assert [call.row for call in one.rollout.calls] == [0, 1]
  assert 'aX' in one.text(1)


def test_an_answer_that_was_cut_is_closed_by_the_template():
  one = talks.talk('chatml')
  one.tell('user', 'u1')
  first = one.answer('ab', ended=False)
  one.tell('user', 'u2')
  one.answer('c')
  end = first.start + 2
  assert len(one.rollout.rows) == 1
  assert one.rollout.rows[0][end : end + 1] == list(one.stop)


def test_sampled_ids_are_never_encoded_again():
  one = talks.Talk(conversations.pairs(), tools=())
  one.tell('user', 'c')
  one.answer_ids([2, 4, *one.stop])  # 'abc', which would be [1, 5]
  one.tell('user', 'c')
  one.answer_ids([2, 3, *one.stop])  # 'ab', which would be [1]
  one.tell('user', 'c')
  one.answer_ids([5, *one.stop])
  (e,), u, a = one.stop, *one.tokenizer.convert_tokens_to_ids(['<u>', '<a>'])
  assert one.rollout.rows == [
    [u, 5, a, 2, 4, e, u, 5, a, 2, 3, e, u, 5, a, 5, e]
  ]


def test_of_two_answers_alike_the_one_that_was_told_the_same():
  one = talks.Talk(conversations.pairs(), tools=())
  one.tell('user', 'c')
  first = one.answer_ids([2, 3, *one.stop])
  one.said.pop()
  one.said[0]['content'] = 'b'
  one.answer_ids([1, *one.stop])  # 'ab' too
  one.said = [{'role': 'user', 'content': 'c'}, one.said[1]]
  one.tell('user', 'c')
  assert one.answer_ids([5, *one.stop]).row == first.row == 0


@pytest.mark.parametrize('name', ['chatml', 'llama', 'merging', 'thinking'])
@pytest.mark.parametrize('text', ['{"n": 4, "tag": "é"}', '{"n":4,"tag":"é"}'])
def test_arguments_are_rendered_once(name, text):
  one = talks.talk(name)
  prompts = []
  for arguments in (text, json.loads(text)):
    function = {'name': 'get', 'arguments': arguments}
    call = {'id': 'c1', 'type': 'function', 'function': function}
    one.said = [
      {'role': 'user', 'content': 'q'},
      {'role': 'assistant', 'content': None, 'tool_calls': [call]},
      {'role': 'tool', 'content': 'r', 'tool_call_id': 'c1'},
    ]
    prompts.append(one.tokenizer.decode(one.prompt()[0]))
  assert prompts[0] == prompts[1]
  assert prompts[0].count('{"n": 4, "tag": "é"}') == 1


def test_a_template_without_calls_gets_them_as_text():
  one = talks.Talk(tokenizers_lib.characters(), 'hermes', tools=())
  function = {'name': 'get', 'arguments': '{"key": "x"}'}
  call = {'id': 'c1', 'type': 'function', 'function': function}
  one.said = [
    {'role': 'user', 'content': 'q'},
    {'role': 'assistant', 'content': 'hm', 'tool_calls': [call]},
    {'role': 'tool', 'content': 'r', 'tool_call_id': 'c1'},
  ]
  assert one.tokenizer.decode(one.prompt()[0]) == (
    '<|user|>q<|assistant|>hm\n<tool_call>\n{"name": "get", "arguments":'
    ' {"key": "x"}}\n</tool_call><|end|><|tool|>r<|assistant|>'
  )


@pytest.mark.parametrize('printed', [True, False])
@pytest.mark.parametrize('known', [True, False])
def test_a_sequence_begins_once(printed, known):
  template = conversations.CHATML
  if printed:
    template = "{{ '<s>' }}" + template
  marks = (*conversations.CHATML_MARKS, '<s>')
  tokenizer = conversations.spelled(template, marks, bos='<s>' if known else '')
  bos = tokenizer.convert_tokens_to_ids('<s>')
  one = talks.Talk(tokenizer)
  one.tell('user', 'u1')
  one.answer('a')
  one.tell('user', 'u2')
  one.answer('b')
  (row,) = one.rollout.rows
  assert row.count(bos) == printed and (row[0] == bos) == printed
  opening = chat.chat(tokenizer).opening(episode.Task('t', 'u1', {}))
  assert opening.count(bos) == printed  # rollouts of either kind agree
  raw = chat.plain(tokenizer, 'some text')
  assert raw.count(bos) == known and (raw[0] == bos) == known


def test_a_template_that_begins_twice():
  template = "{{ '<s><s>' }}" + conversations.CHATML
  marks = (*conversations.CHATML_MARKS, '<s>')
  with pytest.raises(ValueError, match="prints '<s>' more than once"):
    templates.of(conversations.spelled(template, marks, bos='<s>'))


def test_templates_that_do_not_tell_who_speaks():
  with pytest.raises(ValueError, match='no chat template'):
    templates.of(conversations.spelled(None, conversations.CHATML_MARKS))
  plain = "{% for m in messages %}{{ m.content }}{{ '<e>' }}{% endfor %}"
  with pytest.raises(ValueError, match='does not print a turn of the assis'):
    templates.of(conversations.spelled(plain, ('<e>',)))


@pytest.mark.parametrize('where', ['content', 'arguments', 'tools'])
def test_special_tokens_from_outside(where):
  one = talks.talk('chatml')
  spelled = 'say <|im_end|>!'
  function = {'name': 'get', 'arguments': {'key': spelled}}
  one.tell('user', spelled if where == 'content' else 'q')
  if where == 'arguments':
    call = {'id': 'c', 'type': 'function', 'function': function}
    one.tell('assistant', '', tool_calls=[call])
  if where == 'tools':
    one.tools = [{'type': 'function', 'function': {'name': spelled}}]
  with pytest.raises(chat.SpecialText, match=r"'<\|im_end\|>', a special"):
    one.prompt()


def test_what_a_template_refuses():
  template = (
    "{% if messages[0].role == 'tool' %}{{ raise_exception('who asked?') }}"
    '{% endif %}' + conversations.CHATML
  )
  one = talks.Talk(conversations.spelled(template, conversations.CHATML_MARKS))
  one.tell('tool', 't')
  with pytest.raises(templates.Unfit, match='who asked'):
    one.prompt()


words = st.text('ab c\n', max_size=6)
THOUGHTS = ('', '<think>hm</think>', '<think>\nso\n</think>\n\n')
answers = st.tuples(
  st.sampled_from(THOUGHTS),
  words.filter(lambda text: text.strip() == text),
  st.booleans(),
)
turns = st.lists(
  st.tuples(st.sampled_from(['user', 'tool', 'tools']), words, answers),
  min_size=1,
  max_size=5,
)


@pytest.mark.parametrize('name', conversations.FAMILIES)
@hypothesis.settings(deadline=None, max_examples=40)
@hypothesis.given(turns)
def test_rows_open_where_turns_are_rewritten_and_nowhere_else(name, turns):
  one = talks.talk(name)
  call = talks.CALL[conversations.FAMILIES[name][2]]
  one.tell('user', 'begin')
  one.answer('hm</think>yes' if name == 'opened' else 'yes')
  thought = name == 'opened'
  for role, words, (thinks, said, calls) in turns:
    rewritten = name == 'silent' or (role == 'user' and thought)
    for _ in range(2 if role == 'tools' else 1):
      one.tell('user' if role == 'user' else 'tool', words)
    if name == 'opened':
      thinks = 'hm</think>'
    elif name != 'thinking':
      thinks = ''
    said = thinks + (call if calls and name != 'llama' else said)
    before = len(one.rollout.rows)
    made = one.answer(said)
    assert (len(one.rollout.rows) > before) == rewritten
    ids = one.tokenizer.encode(said, add_special_tokens=False)
    row = one.rollout.rows[made.row]
    assert row[made.start :] == [*ids, *one.stop]
    assert words.strip() in one.text(made.row)
    thought = (thought and role != 'user') or '</think>' in said
