"""Reach a number from others, with a calculator to try things out.

`make 24 of 3 5 9`: the answer, `=(3*5)+9`, uses each number once, with + - * /
and brackets, and ends the episode. `calc(3*5)` tells what any expression is
worth before. The reward is 1 for an answer that is right by exact fractions,
and 0 otherwise.
"""

import functools
import random
from typing import Any, NamedTuple

import numpy as np

from arl import episode
from arl.envs import base, calls, expressions

RULES = (
  'Reach the number with + - * / and brackets, using each of the others once. '
  'calc(3*5) tells what 3*5 is. Answer with = and the expression, as in '
  '=(3*5)+9'
)
_SYMBOLS = '+-*/'
_SCHEMA: dict[str, Any] = {
  'type': 'object',
  'properties': {'expression': {'type': 'string'}},
  'required': ['expression'],
}


class State(NamedTuple):
  """Where an episode stands.

  Attributes:
    task: the problem.
    turns: actions so far.
    tried: the expression worked out last, '' before the first.
    last: the last observation, '' before the first.
    over: whether an answer was given.
  """

  task: episode.Task
  turns: int = 0
  tried: str = ''
  last: str = ''
  over: bool = False


def make(
  *,
  numbers: int = 3,
  highest: int = 20,
  target: int = 99,
  guess: float = 0.4,
  fault: float = 0.3,
  system: str = '',
) -> base.Env:
  """The countdown environment; the oracle needs 2 turns.

  Every task has a solution. No task of one split, numbers in whatever order,
  occurs in the other.

  Args:
    numbers: how many are given, 2 to 6.
    highest: they are 1 to this.
    target: what is to be reached is 1 to this, and none of the numbers.
    guess: how often the demonstrator answers at once, with any expression.
    fault: how often what it tries, or answers after, is any expression.
    system: a system message, such as RULES.
  """
  if not 2 <= numbers <= 6:
    raise ValueError(f'countdown: numbers is {numbers}; give 2 to 6.')
  if highest < 5 or target < 10:
    raise ValueError(
      f'countdown: highest {highest} and target {target}; give 5 and 10 or '
      'more, so that there are enough tasks.'
    )
  base.require_probabilities('countdown', guess=guess, fault=fault)
  return base.Env(
    task=functools.partial(_task, numbers, highest, target, system),
    reset=State,
    step=_step,
    oracle=_oracle,
    noisy=functools.partial(_noisy, guess, fault),
    answer=lambda task: f'={_solution(task)}',
    anchor=lambda state: state.last or state.task.prompt,
    tools=(_CALCULATOR,),
  )


def at_random(state: State, rng: np.random.Generator) -> str:
  """An answer of the right form or a call, made up."""
  made = _made_up(state, rng)
  return f'={made}' if rng.random() < 0.5 else f'calc({made})'


def fault(answer: str, task: episode.Task) -> str:
  """What is wrong with an expression as the answer of a task; '' if nothing."""
  worked = expressions.work_out(answer)
  if isinstance(worked, expressions.Fault):
    return worked.error
  if sorted(worked.numbers) != sorted(task.data['numbers']):
    return 'error: use each number once'
  if worked.value != task.data['target']:
    return f'error: that is {worked.value}'
  return ''


def _task(
  numbers: int,
  highest: int,
  target: int,
  system: str,
  split: str,
  index: int,
) -> episode.Task:
  family = f'countdown/numbers={numbers}/highest={highest}/target={target}'
  id = base.task_id(family, split, index)
  rng = random.Random(id)
  drawn = base.draw(
    split, functools.partial(_draw, numbers, highest, target, rng)
  )
  wanted, *given = map(int, drawn.split())
  rng.shuffle(given)
  prompt = f'make {wanted} of {" ".join(map(str, given))}'
  data = {'target': wanted, 'numbers': given}
  return episode.Task(id, prompt, data, system)


def _draw(numbers: int, highest: int, target: int, rng: random.Random) -> str:
  """A target that can be reached, then the numbers in ascending order."""
  while True:
    given = sorted(rng.randint(1, highest) for _ in range(numbers))
    worked = expressions.work_out(
      expressions.combined(given, _SYMBOLS, rng.randrange)
    )
    if isinstance(worked, expressions.Fault) or worked.value in given:
      continue
    if worked.value.denominator == 1 and 1 <= worked.value <= target:
      return ' '.join(map(str, [worked.value, *given]))


def _calculate(expression: str) -> str:
  worked = expressions.work_out(expression)
  if isinstance(worked, expressions.Fault):
    return worked.error
  return str(worked.value)


_CALCULATOR = calls.Tool('calc', 'works out a sum', _SCHEMA, _calculate)


def _step(state: State, text: str) -> tuple[State, episode.Turn]:
  if state.over:
    raise ValueError(f'{state.task.id}: the episode is over; reset first.')
  text = text.strip()
  after = state._replace(turns=state.turns + 1)
  if text.startswith('='):
    right = not fault(text[1:], state.task)
    turn = episode.Turn('', float(right), True, valid=True)
    return after._replace(over=True), turn
  call = calls.parse(text, [_CALCULATOR])
  seen = calls.invoke(call, [_CALCULATOR])
  if isinstance(call, calls.Call) and not seen.startswith('error'):
    after = after._replace(tried=call.arguments['expression'])
  valid = isinstance(call, calls.Call)
  return after._replace(last=seen), episode.Turn(seen, valid=valid)


def _solution(task: episode.Task) -> str:
  return _solved(tuple(sorted(task.data['numbers'])), task.data['target'])


@functools.lru_cache(maxsize=4096)
def _solved(numbers: tuple[int, ...], target: int) -> str:
  found = expressions.solve(numbers, target)
  if found is None:
    raise ValueError(f'countdown: {target} cannot be reached from {numbers}.')
  return found


def _believed(state: State) -> bool:
  """Whether what was tried last is the answer."""
  return bool(state.tried) and not fault(state.tried, state.task)


def _oracle(state: State) -> str:
  if _believed(state):
    return f'={state.tried}'
  return f'calc({_solution(state.task)})'


def _made_up(state: State, rng: np.random.Generator) -> str:
  pick = lambda n: int(rng.integers(n))
  return expressions.combined(state.task.data['numbers'], _SYMBOLS, pick)


def _noisy(
  guess: float, fault: float, state: State, rng: np.random.Generator
) -> str:
  """Guesses, or tries expressions until one is right, and answers with it."""
  if state.turns == 0 and rng.random() < guess:
    return f'={_made_up(state, rng)}'
  if rng.random() >= fault:
    return _oracle(state)
  made = _made_up(state, rng)
  return f'={made}' if _believed(state) else f'calc({made})'
