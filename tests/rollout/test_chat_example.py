"""A task's example is held as a conversation before its prompt."""

import pytest

from arl import episode
from arl.models import tokenizers
from arl.rollout import chat

TASK = episode.Task(
  't', 'sum 1,2', {}, 'be brief', ('sum 3,4', 'add 3,4', 'got 7', '7')
)


def opened(task, role='tool'):
  tokenizer = tokenizers.characters()
  ids = chat.chat(tokenizer, observation_role=role).opening(task)
  expected = tokenizer.apply_chat_template(
    [
      {'role': 'system', 'content': 'be brief'},
      {'role': 'user', 'content': 'sum 3,4'},
      {'role': 'assistant', 'content': 'add 3,4'},
      {'role': role, 'content': 'got 7'},
      {'role': 'assistant', 'content': '7'},
      {'role': 'user', 'content': 'sum 1,2'},
    ],
    tokenize=False,
    add_generation_prompt=True,
  )
  return tokenizer.decode(ids), expected


@pytest.mark.parametrize('role', ['tool', 'user'])
def test_roles(role):
  found, expected = opened(TASK, role)
  assert found == expected


def test_it_begins_as_the_conversation_itself_would():
  made = chat.chat(tokenizers.characters())
  whole = made.opening(TASK)
  alone = made.opening(TASK._replace(prompt='sum 3,4', example=()))
  held = [
    *alone,
    *made.action('add 3,4'),
    *made.reply('got 7'),
    *made.action('7'),
  ]
  assert whole[: len(held)] == held


def test_errors():
  made = chat.chat(tokenizers.characters())
  with pytest.raises(ValueError, match='has 3 texts; give a prompt'):
    made.opening(TASK._replace(example=TASK.example[:3]))
  with pytest.raises(chat.SpecialText, match="the example of task 't'"):
    made.opening(
      TASK._replace(example=('a', tokenizers.characters().eos_token))
    )
