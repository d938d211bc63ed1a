"""Arithmetic with one calculator, for small pretrained chat models.

A system message and one example conversation show the calculator, so that a
model needs no warm start: SmolLM2-135M makes the right call in about a quarter
of its samples, and with the example inside the system message in none. The
model writes `CALC(347 * 589)`, is told `Result: 204383`, and then writes the
number.

How a reply is read:
  1. With a well-formed `CALC(a op b)` in it, the first one is a call, whatever
     stands around it; op is one of + - *.
  2. Else, with `CALC(` in it, it is a malformed call: an error observation.
  3. Else the first number in it is the answer, graded as it stands, whether or
     not the calculator was used: `1,234` is 1234, `3.5` is no integer and so
     wrong. Only the first counts, so listing several is no way to hedge.
  4. Else, with no number in it, an error observation.
Right answers earn 1, all else 0. An answer ends the episode; 3 turns leave room
for one mistake.
"""

import functools
import random
import re
from typing import NamedTuple

import numpy as np

from arl import episode
from arl.envs import base

SYSTEM = 'Use the calculator: CALC(a op b).'
EXAMPLE = ('What is 12 + 30?', 'CALC(12 + 30)', 'Result: 42', '42')

_CALL = re.compile(r'CALC\(\s*(-?[0-9]{1,12})\s*([+*-])\s*(-?[0-9]{1,12})\s*\)')
_NUMBER = re.compile(
  r'-?(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?'
)


class State(NamedTuple):
  """Where an episode stands.

  Attributes:
    task: the problem.
    turns: actions so far.
    result: what the calculator said last, '' before the first call.
    over: whether an answer was given.
  """

  task: episode.Task
  turns: int = 0
  result: str = ''
  over: bool = False


def make(
  *, digits: int = 3, guess: float = 0.5, fault: float = 0.1
) -> base.Env:
  """The arithmetic environment; no sum of one split occurs in the other.

  Args:
    digits: of both operands, 1 to 6.
    guess: how often the demonstrator answers at once, off by a little.
    fault: how often each of its other decisions has a wrong digit.
  """
  if not 1 <= digits <= 6:
    raise ValueError(f'arithmetic: digits is {digits}; give 1 to 6.')
  base.require_probabilities('arithmetic', guess=guess, fault=fault)
  return base.Env(
    task=functools.partial(_task, digits),
    reset=State,
    step=_step,
    oracle=_oracle,
    noisy=functools.partial(_noisy, guess, fault),
    answer=lambda task: task.data['answer'],
    vary=_vary,
  )


def _task(digits: int, split: str, index: int) -> episode.Task:
  id = base.task_id(f'arithmetic/digits={digits}', split, index)
  return _drawn(digits, '+-*', split, id)


def _vary(task: episode.Task, rng: np.random.Generator) -> episode.Task:
  """The same operation on numbers of as many digits or of fewer."""
  id, split = base.varied_id(task.id, rng)
  left, operator, _ = task.data['expression'].split()
  return _drawn(int(rng.integers(1, len(left) + 1)), operator, split, id)


def _drawn(digits: int, operators: str, split: str, id: str) -> episode.Task:
  rng = random.Random(id)
  low, high = 10 ** (digits - 1), 10**digits - 1
  number = functools.partial(rng.randint, low, high)
  expression = base.draw(
    split, lambda: f'{number()} {rng.choice(operators)} {number()}'
  )
  answer = _calculate(*expression.split())
  data = {'expression': expression, 'answer': answer}
  return episode.Task(id, f'What is {expression}?', data, SYSTEM, EXAMPLE)


def _calculate(left: str, operator: str, right: str) -> str:
  a, b = int(left), int(right)
  return str({'+': a + b, '-': a - b, '*': a * b}[operator])


def _step(state: State, text: str) -> tuple[State, episode.Turn]:
  if state.over:
    raise ValueError(f'{state.task.id}: the episode is over; reset first.')
  after = state._replace(turns=state.turns + 1)
  call = _CALL.search(text)
  if call:
    after = after._replace(result=_calculate(*call.groups()))
    return after, episode.Turn(f'Result: {after.result}')
  if 'CALC(' in text:
    return after, episode.Turn('Error: write CALC(a op b), op one of + - *')
  number = _NUMBER.search(text)
  if not number:
    return after, episode.Turn('Error: write CALC(a op b) or the number')
  answer = number.group().replace(',', '')
  reward = float(answer == state.task.data['answer'])
  return after._replace(over=True), episode.Turn('', reward, True)


def _oracle(state: State) -> str:
  data = state.task.data
  if state.result == data['answer']:
    return state.result
  return f'CALC({data["expression"]})'


def _noisy(
  guess: float, fault: float, state: State, rng: np.random.Generator
) -> str:
  """Guesses or calculates; a result it got by a wrong digit, it believes."""
  answer = int(state.task.data['answer'])
  if state.turns == 0 and rng.random() < guess:
    return str(answer + (-1) ** int(rng.integers(2)) * int(rng.integers(1, 50)))
  action = state.result or _oracle(state)
  if rng.random() >= fault:
    return action
  places = [i for i, c in enumerate(action) if c in '0123456789']
  at = places[rng.integers(len(places))]
  digit = (int(action[at]) + int(rng.integers(1, 10))) % 10
  return f'{action[:at]}{digit}{action[at + 1 :]}'
