"""Records of preferences: what is read, and what is refused by its line."""

import json

import pytest

from arl import episode
from arl.envs import base, recorded

PAIR = {'prompt': 'Why?', 'chosen': 'So.', 'rejected': 'No.'}
SINGLE = {'prompt': 'Why?', 'completion': 'So.', 'label': True}


def write(folder, *records):
  path = folder / 'some.jsonl'
  lines = [r if isinstance(r, str) else json.dumps(r) for r in records]
  path.write_text('\n'.join(lines) + '\n')
  return str(path)


def make(folder, *records, held_out=0):
  return recorded.make(path=write(folder, *records), held_out=held_out)


def refused(folder, *records):
  with pytest.raises(ValueError) as caught:
    make(folder, *records)
  return str(caught.value)


def test_records_are_tasks(tmp_path):
  env = make(tmp_path, PAIR, '', {**PAIR, 'prompt': 'How?'}, held_out=1)
  task = env.task(base.TRAIN, 0)
  assert task == env.task(base.TRAIN, 0)
  assert (task.id, task.prompt) == ('recorded/some.jsonl:1', 'Why?')
  assert task.data['messages'] == [{'role': 'user', 'content': 'Why?'}]
  assert task.data['chosen'] == {'role': 'assistant', 'content': 'So.'}
  assert env.task(base.HELD_OUT, 7).id == 'recorded/some.jsonl:3'
  json.dumps(task.data)
  with pytest.raises(ValueError, match='prompts.size to at most 1'):
    env.task(base.TRAIN, 1)


def test_the_preferred_answer_is_right_word_for_word(tmp_path):
  env = make(tmp_path, PAIR)
  state = env.reset(env.task(base.TRAIN, 0))
  assert env.oracle(state) == 'So.'
  for text, reward in (('So.', 1.0), ('so.', 0.0)):
    assert env.step(state, text)[1] == episode.Turn('', reward, True)


def test_conversations_with_tools(tmp_path):
  tools = [{'type': 'function', 'function': {'name': 'f', 'parameters': {}}}]
  said = [{'role': 'user', 'content': 'a'}, {'role': 'tool', 'content': 'b'}]
  call = {'role': 'assistant', 'content': '', 'tool_calls': [{'id': 'x'}]}
  made = make(
    tmp_path,
    {'messages': said, 'tools': tools, 'chosen': [call], 'rejected': 'No.'},
  ).task(base.TRAIN, 0)
  assert made.data['tools'] == tools
  assert made.data['messages'] == said
  assert made.data['chosen'] == call


REFUSED = (
  ('{', 'some.jsonl:1: no JSON'),
  ('[]', 'some.jsonl:1: give an object'),
  ({**PAIR, 'score': 1}, "some.jsonl:1: no field 'score' is known"),
  ({**PAIR, 'rejected': 'So.'}, 'some.jsonl:1: chosen and rejected are equal'),
  ({**PAIR, 'rejected': ' '}, 'some.jsonl:1: rejected is empty'),
  ({**PAIR, 'chosen': []}, 'some.jsonl:1: chosen is []'),
  ({'prompt': 'a', 'chosen': 'b'}, 'some.jsonl:1: give chosen and rejected'),
  ({**PAIR, **SINGLE}, 'some.jsonl:1: give chosen and rejected'),
  ({**PAIR, 'prompt': ''}, "some.jsonl:1: the conversation is ''"),
  ({**PAIR, 'messages': []}, 'some.jsonl:1: give either messages or a prompt'),
  (
    {**PAIR, 'prompt': [{'role': 'assistant', 'content': 'a'}]},
    'some.jsonl:1: the conversation ends with the assistant',
  ),
  ({**SINGLE, 'label': 1}, 'some.jsonl:1: label is 1'),
)


@pytest.mark.parametrize('record, message', REFUSED)
def test_a_record_is_refused_by_its_line(tmp_path, record, message):
  assert refused(tmp_path, record).startswith(message)


def test_files_are_refused(tmp_path):
  one_class = refused(tmp_path, SINGLE, SINGLE)
  assert 'some.jsonl:1 and all other answers' in one_class
  assert 'make two files' in refused(
    tmp_path, PAIR, SINGLE, {**SINGLE, 'label': False}
  )
  assert 'leave at least one to train on' in refused(tmp_path)
  with pytest.raises(ValueError, match='which is no file'):
    recorded.make(path=str(tmp_path / 'none'))
