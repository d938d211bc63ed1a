"""Functions to write, judged by tests that the policy never sees.

The prompt says step by step what f does and shows an example, `f(x): times 3,
plus 7. f(2)=13`; the action is the source, `def f(x): return x*3+7`, bare or in
a fenced block. It runs in a sandbox, where only arguments go in; its answers
are compared outside. A source that fails the example is told so, and another
may follow, as long as there are tries.
"""

import functools
import random
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from arl import episode
from arl.envs import base, boxes
from arl.rewards import outcomes

GRADES = {
  'all_passed': outcomes.all_passed,
  'fraction': outcomes.fraction,
  'coderl': outcomes.coderl,
}
RULES = 'Write the Python function f that is described. Say only its source.'

_FENCED = re.compile(r'```(?:python|py)?\n(.*?)```', re.DOTALL)
# What each step does, and its Python around an expression for a number.
_STEPS = {
  'plus': (lambda x, k: x + k, '{}+{}'),
  'minus': (lambda x, k: x - k, '{}-{}'),
  'times': (lambda x, k: x * k, '{}*{}'),
  'mod': (lambda x, k: x % k, '{}%{}'),
  'over': (lambda x, k: x // k, '{}//{}'),
}
_LOOSE = ('plus', 'minus')  # bind less than the others


class State(NamedTuple):
  """Where an episode stands.

  Attributes:
    task: the problem.
    turns: actions so far.
    over: whether the last one was judged.
  """

  task: episode.Task
  turns: int = 0
  over: bool = False


class _Rules(NamedTuple):
  """What the functions of an environment share."""

  steps: int
  tests: int
  tries: int
  grade: str
  seconds: float
  unsafe: bool
  system: str


def make(
  *,
  steps: int = 2,
  tests: int = 8,
  tries: int = 2,
  grade: str = 'all_passed',
  seconds: float = 3.0,
  fault: float = 0.8,
  unsafe_without_isolation: bool = False,
  system: str = '',
) -> base.Env:
  """The coding environment; the oracle needs one turn.

  What does not pass the example on the last try earns the grade of its hidden
  tests all the same. No function of one split occurs in the other.

  Args:
    steps: of a function, at most.
    tests: hidden ones.
    tries: sources that may be handed in.
    grade: 'all_passed', 'fraction', or 'coderl' for its four levels.
    seconds: that a source may run on all inputs; else it fails all of them.
    fault: how often the demonstrator's source is wrong in a step.
    unsafe_without_isolation: run sources even if nothing can isolate them.
    system: a system message, such as RULES.

  Raises:
    ValueError: a number out of its range.
    arl.sandbox.base.Refused: nothing isolates programs on this machine.
  """
  if grade not in GRADES:
    raise ValueError(
      f'coding: no grade {grade!r}; grades: {", ".join(GRADES)}.'
    )
  if min(steps, tests, tries) < 1:
    raise ValueError(
      f'coding: steps {steps}, tests {tests}, tries {tries}; give 1 or more of'
      ' each.'
    )
  base.require_probabilities('coding', fault=fault)
  boxes.check(unsafe_without_isolation)
  rules = _Rules(
    steps, tests, tries, grade, seconds, unsafe_without_isolation, system
  )
  return base.Env(
    task=functools.partial(_task, rules),
    reset=State,
    step=functools.partial(_step, rules),
    oracle=lambda state: _source(state.task.data['steps']),
    noisy=functools.partial(_noisy, fault),
    answer=lambda task: _source(task.data['steps']),
  )


def at_random(state: State, rng: np.random.Generator) -> str:
  """A source of another function, without a thought."""
  del state
  return _source([_draw_step(random.Random(int(rng.integers(1 << 30))))])


def source_of(text: str) -> str:
  """The source that an action holds: its last fenced block, or all of it."""
  fenced = _FENCED.findall(text)
  return fenced[-1] if fenced else text.strip()


def _task(rules: _Rules, split: str, index: int) -> episode.Task:
  id = base.task_id(f'coding/steps={rules.steps}', split, index)
  rng = random.Random(id)
  made: list[list[Any]] = []

  def propose() -> str:
    made[:] = [_draw_step(rng) for _ in range(rng.randint(1, rules.steps))]
    return ', '.join(f'{name} {k}' for name, k in made)

  told = base.draw(split, propose)
  inputs = rng.sample(range(-99, 100), rules.tests)
  example = rng.randint(2, 9)
  shown = f'f(x): {told}. f({example})={_result(made, example)}'
  data = {'steps': [*made], 'example': example, 'inputs': inputs}
  return episode.Task(id, shown, data, rules.system)


def _draw_step(rng: random.Random) -> list[Any]:
  return [rng.choice(list(_STEPS)), rng.randint(2, 9)]


def _result(steps: Sequence[Sequence[Any]], x: int) -> int:
  for name, k in steps:
    x = _STEPS[name][0](x, k)
  return x


def _source(steps: Sequence[Sequence[Any]]) -> str:
  """The source of a function, without brackets that it can do without."""
  text, loose = 'x', False
  for name, k in steps:
    inner = f'({text})' if loose and name not in _LOOSE else text
    text, loose = _STEPS[name][1].format(inner, k), name in _LOOSE
  return f'def f(x): return {text}'


def _step(rules: _Rules, state: State, text: str) -> tuple[State, episode.Turn]:
  if state.over:
    raise ValueError(f'{state.task.id}: the episode is over; reset first.')
  after = state._replace(turns=state.turns + 1)
  source, data = source_of(text), state.task.data
  if 'def f' not in source:  # uses up a try all the same
    if after.turns < rules.tries:
      return after, episode.Turn('error: write a function f')
    return _judged(rules, after, [outcomes.NOT_COMPILED])
  shown = [data['example']]
  asked = [[x] for x in shown + data['inputs']]
  seen = boxes.observe(source, 'f', asked, rules.seconds, rules.unsafe)
  wanted = [_result(data['steps'], x) for x in shown + data['inputs']]
  results = list(map(boxes.graded, seen, wanted))
  if results[0] != outcomes.PASSED and after.turns < rules.tries:
    told = seen[0] if isinstance(seen[0], str) else repr(seen[0][0])
    return after, episode.Turn(f'error: f({shown[0]}) is {told[:40]}')
  return _judged(rules, after, results[1:])


def _judged(rules, after, results) -> tuple[State, episode.Turn]:
  reward = boxes.earned(GRADES[rules.grade](results))
  return after._replace(over=True), episode.Turn('', reward, True)


def _noisy(fault: float, state: State, rng: np.random.Generator) -> str:
  """The right source, or one with a step that is another."""
  steps = [[*step] for step in state.task.data['steps']]
  if rng.random() >= fault:
    return _source(steps)
  at = rng.integers(len(steps))
  others = [name for name in _STEPS if name != steps[at][0]]
  if rng.random() < 0.5:
    steps[at][0] = others[rng.integers(len(others))]
  else:
    steps[at][1] = int((steps[at][1] - 1 + rng.integers(7)) % 8 + 2)
  return _source(steps)
