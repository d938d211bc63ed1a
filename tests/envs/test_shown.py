"""A solved task before another."""

import pytest

from arl.envs import base, shown, tools
from arl.models import tokenizers
from arl.rollout import chat as chat_lib

TOOLS = {'name': 'tools.make', 'guess': 0.5}


def test_what_the_oracle_does_stands_before_the_task():
  env = shown.make(env=TOOLS, index=3, split=base.TRAIN)
  plain = tools.make(guess=0.5)
  task, inner = env.task(base.HELD_OUT, 5), plain.task(base.HELD_OUT, 5)
  other = plain.task(base.TRAIN, 3)
  played = base.play(plain, other, plain.oracle, 9)
  texts = [other.prompt]
  for one in played:
    texts += [one.action, one.turn.text]
  assert task.example == tuple(texts[:-1])
  assert task._replace(id=inner.id, example=()) == inner
  assert task.id == f'shown/{inner.id}'
  chat = chat_lib.chat(tokenizers.characters())
  text = chat.tokenizer.decode(chat.opening(task))
  assert text.index(played[-1].action) < text.index(task.prompt)


def test_a_task_is_not_shown_before_itself():
  env = shown.make(env=TOOLS, index=3, split=base.TRAIN)
  first, next_one = (tools.make().task(base.TRAIN, i) for i in (3, 4))
  assert env.task(base.TRAIN, 4).example[0] == first.prompt
  assert env.task(base.TRAIN, 3).example[0] == next_one.prompt


def test_the_rest_is_as_without():
  env = shown.make(env=TOOLS, index=0, split=base.TRAIN)
  task = env.task(base.HELD_OUT, 1)
  played = base.play(env, task, env.oracle, 9)
  assert played[-1].turn.reward == 1


@pytest.mark.parametrize(
  'block, index, split, message',
  [
    ({}, 0, base.TRAIN, 'needs a name'),
    (TOOLS, -1, base.TRAIN, 'index -1'),
    (TOOLS, 0, 'test', "split 'test'"),
  ],
)
def test_what_cannot_be_shown_is_refused(block, index, split, message):
  with pytest.raises(ValueError, match=message):
    shown.make(env=block, index=index, split=split)


def lost():
  """An environment whose oracle errs."""
  return tools.make()._replace(oracle=lambda state: '=wrong')


def test_an_oracle_that_errs_is_no_example():
  block = {'name': f'{__name__}.lost'}
  with pytest.raises(ValueError, match='oracle does not solve'):
    shown.make(env=block, index=0, split=base.TRAIN)
