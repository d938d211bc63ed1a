"""Records of conversations: what is read, drawn, and refused by its line."""

import collections
import json

import pytest

from arl.envs import base, conversations

USER = {'role': 'user', 'content': 'Why?'}
SAID = {'role': 'assistant', 'content': 'So.'}
TOOL = {'role': 'tool', 'content': '7'}
RECORD = {'messages': [USER, SAID]}


def make(folder, *records, held_out=0, **more):
  path = folder / 'some.jsonl'
  path.write_text('\n'.join(map(json.dumps, records)))
  return conversations.make(path=str(path), held_out=held_out, **more)


def test_records_are_tasks(tmp_path):
  first = {**SAID, 'train': False}
  whole = {
    'messages': [USER, first, TOOL, SAID],
    'tools': [{'type': 'function'}],
    'weight': 2,
    'kind': 'agent',
  }
  env = make(tmp_path, whole, RECORD, held_out=1)
  silent = {**SAID, 'content': '', 'train': False}
  make(tmp_path, {'messages': [USER, silent, TOOL, SAID]})  # read, not learnt
  task = env.task(base.TRAIN, 0)
  assert (task.id, task.prompt) == ('conversations/some.jsonl:1', 'Why?')
  assert task.data['train'] == [False, False, False, True]
  assert task.data['messages'] == [USER, SAID, TOOL, SAID]
  assert task.data['weight'] == 2 and task.data['tools'] == whole['tools']
  json.dumps(task.data)
  held_out = env.task(base.HELD_OUT, 3)
  assert held_out.data['train'] == [False, True]
  assert env.oracle(env.reset(held_out)) == 'So.'
  assert env.noisy(held_out, None) == 'So.'
  assert env.step(held_out, 'So.')[1].reward == 1
  assert env.step(held_out, 'so')[1].reward == 0
  with pytest.raises(ValueError, match='prompts.size to at most 1'):
    env.task(base.TRAIN, 1)


def test_another_environment_judges(tmp_path):
  env = make(tmp_path, RECORD, judged={'name': 'tools.make', 'max_hops': 1})
  assert env.task(base.TRAIN, 0).data['train'] == [False, True]
  task = env.task(base.HELD_OUT, 0)
  assert task.id == 'tools/max_hops=1/held_out/0'
  state, turn = env.step(env.reset(task), env.oracle(env.reset(task)))
  assert state.steps == 1 and not turn.done
  with pytest.raises(ValueError, match='judged needs a name'):
    make(tmp_path, RECORD, judged={'max_hops': 1})


def test_kinds_are_drawn_by_their_weights(tmp_path):
  kinds = ['agent'] * 8 + ['general'] * 2 + ['other']
  made = make(
    tmp_path,
    *({**RECORD, 'kind': kind} for kind in kinds),
    weights={'agent': 0.2, 'general': 0.8},
  )
  drawn = [made.task(base.TRAIN, i) for i in range(1000)]
  assert drawn[:9] == [made.task(base.TRAIN, i) for i in range(9)]
  counts = collections.Counter(task.data['kind'] for task in drawn)
  assert counts.keys() == {'agent', 'general'}
  assert abs(counts['agent'] - 200) < 40  # three deviations
  assert len({task.id for task in drawn}) == 10


def test_weights_that_no_record_can_follow(tmp_path):
  for weights, message in (
    ({}, 'give each kind that is'),
    ({'a': 0.0}, 'give each kind that is'),
    ({'a': 1.0}, "no record is of the kind 'a'; there are ''"),
  ):
    with pytest.raises(ValueError, match=message):
      make(tmp_path, RECORD, weights=weights)


def of(*messages, **more):
  return {'messages': [*messages], **more}


REFUSED = (
  (of(), 'some.jsonl:1: the conversation is []'),
  (of(SAID), 'some.jsonl:1: the conversation begins with the assistant'),
  (of(USER, SAID, TOOL), "some.jsonl:1: the conversation ends with 'tool'"),
  (of(USER, {**SAID, 'content': ' '}), 'some.jsonl:1: messages[1] is empty'),
  (of({**USER, 'train': True}, SAID), 'some.jsonl:1: messages[0].train is Tr'),
  (of(USER, {**SAID, 'train': 1}), 'some.jsonl:1: messages[1].train is 1'),
  (of(USER, {**SAID, 'train': False}), 'some.jsonl:1: no message is learnt'),
  (of(USER, SAID, weight=-1), 'some.jsonl:1: weight is -1'),
  (of(USER, SAID, kind=1), 'some.jsonl:1: kind is 1'),
  (of(USER, SAID, mood=1), "some.jsonl:1: no field 'mood' is known"),
)


@pytest.mark.parametrize('record, message', REFUSED)
def test_a_record_is_refused_by_its_line(tmp_path, record, message):
  with pytest.raises(ValueError) as caught:
    make(tmp_path, record)
  assert str(caught.value).startswith(message)
