"""Who ranks the actions that a policy proposes, before any of them is tried.

A function of this kind is given the states of a batch at once; what it answers
of each is an order of the actions by index, the best first, or None where it
could not say.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from arl import episode
from arl.rollout import chat as chat_lib
from arl.rollout import engine as engine_lib
from arl.rollout import resume, strategies

_NUMBER = re.compile(r'\d+')


class Question(NamedTuple):
  """A state, and what may be done there.

  Attributes:
    row: the episode so far; the policy is to speak.
    actions: proposed ones, at least two.
    path: of the randomness of a request, if one is made.
  """

  row: strategies.Live
  actions: Sequence[engine_lib.Sample]
  path: tuple[int, ...]


Order = Sequence[int]
Rank = Callable[
  [
    engine_lib.Engine,
    chat_lib.Chat,
    Sequence[Question],
    strategies.Plan,
  ],
  list[Order | None],
]


def by_likelihood(
  engine: engine_lib.Engine,
  chat: chat_lib.Chat,
  questions: Sequence[Question],
  plan: strategies.Plan,
) -> list[Order | None]:
  """By the mean log-prob of an action's tokens: what the policy would rather.

  For models that cannot read a question about actions. The engine is not asked
  again.
  """
  del engine, chat, plan
  return [
    np.argsort(
      [-np.mean(action.logp) for action in each.actions], kind='stable'
    ).tolist()
    for each in questions
  ]


def by_critic(
  engine: engine_lib.Engine,
  chat: chat_lib.Chat,
  questions: Sequence[Question],
  plan: strategies.Plan,
) -> list[Order | None]:
  """By what the policy itself answers when it is asked for a ranking.

  The critic of Agent Q: the same model, asked greedily and in a conversation of
  its own. None where its answer is no ranking, where the question cannot be
  spelled, or where the context has no room for it. An answer has as many tokens
  as a turn may have.
  """
  orders: list[Order | None] = [None] * len(questions)
  requests = {
    i: made
    for i, each in enumerate(questions)
    if (made := _request(each, chat, plan.limits))
  }
  sampling = engine_lib.Sampling(temperature=0, stop=chat.stop)
  asked = list(requests.values())
  answers = resume.generate(engine.generate, asked, sampling) if asked else []
  for i, answer in zip(requests, answers):
    text = chat.decode(answer.tokens.tolist())
    orders[i] = read(text, len(questions[i].actions))
  return orders


def _request(question, chat, limits) -> engine_lib.Request | None:
  """What the critic is asked, if it can be."""
  task = question.row.task
  asked = episode.Task(task.id, ask(question, chat), {}, task.system)
  try:
    ids = chat.opening(asked)
  except chat_lib.UnfitText:
    return None
  room = min(limits.turn_tokens, limits.context - len(ids))
  if room < 1:
    return None
  return engine_lib.Request(tuple(ids), room, question.path)


def ask(question: Question, chat: chat_lib.Chat) -> str:
  """The question as text: the task, what was done, what may be done now."""
  texts = [chat.decode(each.tokens.tolist()) for each in question.actions]
  done = [
    f'> {each.action}\n{each.turn.text}' for each in question.row.exchanges
  ]
  numbers = range(1, len(texts) + 1)
  return '\n'.join(
    [
      question.row.task.prompt,
      *done,
      'What may be done next:',
      *(f'{number}. {text}' for number, text in zip(numbers, texts)),
      'Which of these leads to success? Rank them all. Answer by their numbers'
      f' alone, the best first, such as {" > ".join(map(str, numbers[::-1]))}.',
    ]
  )


def read(answer: str, count: int) -> Order | None:
  """The order that an answer's last line with numbers gives, from 0.

  Args:
    answer: the critic's.
    count: how many actions there are.

  Returns:
    None, if that line does not name each action once.
  """
  lines = [found for x in answer.splitlines() if (found := _NUMBER.findall(x))]
  order = [int(number) - 1 for number in lines[-1]] if lines else []
  return order if sorted(order) == list(range(count)) else None
