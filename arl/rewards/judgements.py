"""Additive judgements: how much of five points an episode deserves.

A form says how they are asked for and given. What was done is data of whoever
is judged: each of its lines begins with a mark that says who wrote it, so that
none can pose as another's, and markers of chat templates in it are broken up.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from arl import episode
from arl.rewards import fences, judge, verdict

POINTS = 5
_ACTION, _OBSERVATION, _TASK = '- ', '> ', '? '

# One point each; ours, after the five of arXiv:2401.10020.
_CRITERIA = {
  'bears': 'what was done bears on the task',
  'advances': 'it covers a good part of what was asked, if not all',
  'answers': 'it does what was asked in the main, in a way that is of use',
  'sound': 'each step follows from what was known, and nothing is made up',
  'complete': 'the outcome is right and complete, without a needless step',
}
_RUBRIC = judge.Rubric(_CRITERIA, dict.fromkeys(_CRITERIA, 1.0))
_MARKS = (
  '(In the response lines that begin with - are what was done, and lines that'
  ' begin with > what was seen then.)'
)


class Form(NamedTuple):
  """How a judgement is asked for and given.

  Attributes:
    ask: (task, exchanges) -> the system message, or '', and the prompt.
    read: what a judge said -> a verdict: the share of the points, 0 to 1.
    write: points -> what a judge says who gives so many.
  """

  ask: Callable[[episode.Task, Sequence[episode.Exchange]], tuple[str, str]]
  read: Callable[[str], verdict.Verdict]
  write: Callable[[int], str]


def rubric() -> Form:
  """Five criteria, a point each, in JSON: for models that were pretrained."""
  return Form(
    ask=_ask_rubric,
    read=lambda text: judge.read(text, _RUBRIC),
    write=lambda points: json.dumps(
      {'scores': {name: int(i < points) for i, name in enumerate(_CRITERIA)}}
    ),
  )


def short() -> Form:
  """A digit, asked for in few characters: for models that learn to judge."""
  return Form(ask=_ask_short, read=_read_digit, write=str)


def shown(task: episode.Task, exchanges: Sequence[episode.Exchange]) -> str:
  """The prompt of a task and what was done, marked line by line."""
  return '\n'.join([*_marked(_TASK, task.prompt), told(exchanges)])


def told(exchanges: Sequence[episode.Exchange]) -> str:
  """What was done and seen, marked line by line.

  The observation after the last action is left out, which nobody has acted on.
  """
  lines: list[str] = []
  for i, exchange in enumerate(exchanges):
    if i:
      lines += _marked(_OBSERVATION, exchanges[i - 1].turn.text)
    lines += _marked(_ACTION, exchange.action)
  return '\n'.join(lines)


def _marked(mark: str, text: str) -> list[str]:
  """The lines of a text, one at least, behind a mark."""
  return [mark + fences.harmless(line) for line in text.splitlines() or ['']]


def _ask_rubric(
  task: episode.Task, exchanges: Sequence[episode.Exchange]
) -> tuple[str, str]:
  question = '\n\n'.join(filter(None, (task.system, task.prompt)))
  done = told(exchanges)
  word = fences.word_of(f'{question}\n{done}')
  system, user = judge.messages(_RUBRIC, question, done, word)
  return system['content'], f'{_MARKS}\n\n{user["content"]}'


def _ask_short(
  task: episode.Task, exchanges: Sequence[episode.Exchange]
) -> tuple[str, str]:
  return '', f'judge\n{shown(task, exchanges)}'


def _read_digit(text: str) -> verdict.Verdict:
  if not re.fullmatch(f'[0-{POINTS}]', text.strip()):
    return verdict.error(
      f'the judge gave no digit from 0 to {POINTS}: {text[:80]!r}'
    )
  return verdict.scored(int(text) / POINTS)
