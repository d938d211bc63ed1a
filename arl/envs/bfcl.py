"""BFCL's single-turn questions: which functions to call, and with what.

The Berkeley Function Calling Leaderboard (Gorilla, v4), from the data in the
package bfcl-eval. It is an evaluation set: there are no training tasks. One
reply is all there is. It is Python, `[f(a=1), g(b=2)]`, read and never run, and
right if it calls what BFCL expects, by BFCL's rules; `bfcl_match` has them.
Where BFCL says that no function helps, right is any reply without calls, so a
model that cannot call anything earns 1 there; where a function is relevant, any
call is right. Not from BFCL: the words of the prompt, and that arguments which
are names of variables are faults.

Under those rules no reply is right for a few questions whose answers do not fit
their functions (2 of live_simple, 3 of live_multiple).

Needs `pip install --no-deps bfcl-eval`.
"""

import functools
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from arl import episode
from arl.envs import base, bfcl_match, call_syntax_python, calls, extras
from arl.rewards import answers

INSTALL = 'pip install --no-deps bfcl-eval; pip install mpmath'
SYSTEM = (
  'Call functions to do what the user asks. Reply with the calls and nothing '
  "else, as [name(argument=value, ..), ..], for instance [add(a=1, b='x')]. If "
  'no function helps or something is missing, say so instead. The functions:\n'
)
CATEGORIES = (
  'simple_python',
  'multiple',
  'parallel',
  'parallel_multiple',
  'irrelevance',
  'live_simple',
  'live_multiple',
  'live_parallel',
  'live_parallel_multiple',
  'live_irrelevance',
  'live_relevance',
)
_NOTHING = 'None of the functions can do that.'


class State(NamedTuple):
  """Where an episode stands.

  Attributes:
    task: the problem.
    turns: actions so far.
    over: whether a reply was given.
  """

  task: episode.Task
  turns: int = 0
  over: bool = False


def make(*, category: str = 'simple_python', fault: float = 0.5) -> base.Env:
  """The questions of a category, in BFCL's order, all of the held-out split.

  Args:
    category: one of CATEGORIES.
    fault: how often the demonstrator calls any function, without arguments.
  """
  if category not in CATEGORIES:
    raise ValueError(
      f'bfcl: no category {category!r}; categories: {", ".join(CATEGORIES)}.'
    )
  base.require_probabilities('bfcl', fault=fault)
  load(f'BFCL_v4_{category}.json')
  return base.Env(
    task=functools.partial(_task, category),
    reset=State,
    step=_step,
    oracle=lambda state: answer(state.task),
    noisy=functools.partial(_noisy, fault),
    answer=answer,
    anchor=lambda state: state.task.prompt,
  )


@functools.lru_cache(maxsize=32)
def load(name: str) -> tuple[Mapping[str, Any], ...]:
  """A file of the package's data, one object a line."""
  package = extras.load('bfcl_eval', INSTALL)
  path = pathlib.Path(package.__path__[0], 'data', name)
  lines = path.read_text(encoding='utf-8').splitlines()
  return tuple(json.loads(line) for line in lines if line.strip())


def question(
  family: str, name: str, split: str, index: int
) -> tuple[str, Mapping[str, Any]]:
  """The id of a task and what the file says of it.

  Raises:
    ValueError: the split is for training, or the file has no such question.
  """
  id = base.task_id(family, split, index)
  if split != base.HELD_OUT:
    raise ValueError(
      f'{family}: BFCL is an evaluation set and has no tasks to train on; use '
      f'the split {base.HELD_OUT!r}.'
    )
  questions = load(name)
  if index >= len(questions):
    raise ValueError(
      f'{family}: task index {index}, and there are {len(questions)} tasks; '
      'give --first=0 and no more --tasks than that.'
    )
  return id, questions[index]


def spelled(functions: Sequence[Mapping[str, Any]]) -> str:
  """Descriptions of functions, one a line."""
  return '\n'.join(json.dumps(function) for function in functions)


def answer(task: episode.Task) -> str:
  """A right reply."""
  data = task.data
  if data['wanted'] is None:
    if not data['calls']:
      return _NOTHING
    call = call_syntax_python.Call(data['functions'][0]['name'], (), {})
    return call_syntax_python.write([call])
  by_name = {function['name']: function for function in data['functions']}
  return call_syntax_python.write(
    [
      bfcl_match.found(by_name[name], options)
      for want in data['wanted']
      for name, options in want.items()
    ]
  )


def at_random(state: State, rng: np.random.Generator) -> str:
  """A call of one of the functions, if there are any, without arguments."""
  functions = state.task.data['functions']
  if not functions:
    return _NOTHING
  name = functions[rng.integers(len(functions))]['name']
  return call_syntax_python.write([call_syntax_python.Call(name, (), {})])


def right(task: episode.Task, text: str) -> bool:
  """Whether a reply is right."""
  data, said = task.data, answers.said(text)
  made = call_syntax_python.read(said or '')
  if isinstance(made, calls.Fault):
    made = ()
  if data['wanted'] is None:
    return bool(made) == data['calls'] and said is not None
  return bfcl_match.all_fit(made, data['functions'], data['wanted'])


def _task(category: str, split: str, index: int) -> episode.Task:
  name = f'BFCL_v4_{category}.json'
  id, entry = question(f'bfcl/{category}', name, split, index)
  told = entry['question'][0]
  system = [m['content'] for m in told if m['role'] == 'system']
  # A conversation that has begun is told as one message.
  prompt = '\n'.join(m['content'] for m in told if m['role'] != 'system')
  wanted = None
  if 'relevance' not in category:
    wanted = load(f'possible_answer/{name}')[index]['ground_truth']
  data = {
    'bfcl': entry['id'],
    'functions': entry['function'],
    'wanted': wanted,
    'calls': 'irrelevance' not in category,
  }
  rules = SYSTEM + spelled(entry['function'])
  return episode.Task(id, prompt, data, '\n\n'.join([rules, *system]))


def _step(state: State, text: str) -> tuple[State, episode.Turn]:
  if state.over:
    raise ValueError(f'{state.task.id}: the episode is over; reset first.')
  reward = float(right(state.task, text))
  after = state._replace(turns=state.turns + 1, over=True)
  return after, episode.Turn('', reward, True, reward)


def _noisy(fault: float, state: State, rng: np.random.Generator) -> str:
  if rng.random() < fault:
    return at_random(state, rng)
  return answer(state.task)
