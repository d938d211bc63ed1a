"""BFCL's conversations over stateful APIs, checked by the state they leave.

The Berkeley Function Calling Leaderboard (Gorilla, v4), multi-turn, from the
data and the Python APIs in the package bfcl-eval. It is an evaluation set:
there are no training tasks. A reply is calls, `[f(a=1), g(b=2)]`, answered by
what they give, or anything else, which ends the user's turn; then the user
speaks again. After each turn the APIs must stand as after BFCL's own calls, and
what those calls gave must be among what the policy's gave so far. The reward is
1 if that holds after every turn. Unlike there, an episode ends with the first
turn that went wrong, a reply that looks like calls but cannot be read is told
so, and arguments that are calls themselves are refused.

Needs `pip install --no-deps bfcl-eval` and `pip install mpmath`.
"""

import functools
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from arl import episode
from arl.envs import (
  base,
  bfcl,
  bfcl_apis,
  call_syntax_python,
  calls,
  replays,
)
from arl.rewards import answers

CATEGORIES = (
  'multi_turn_base',
  'multi_turn_miss_func',
  'multi_turn_miss_param',
  'multi_turn_long_context',
)
STEPS = 20  # replies in a turn of the user's; BFCL's limit
DONE = 'Done.'
_AGAIN = (
  'What calls do lasts. After them you see what they gave and may call again; '
  'say that you are done to hear the user again.\n'
)


class State(NamedTuple):
  """Where an episode stands.

  Attributes:
    task: the problem.
    actions: those that changed anything, in order.
    shown: the last observation.
    turn: which turn of the user's it is, from 0.
    called: replies with calls in this turn.
    turns: actions so far.
    over: whether it has ended.
  """

  task: episode.Task
  actions: tuple[str, ...]
  shown: str
  turn: int = 0
  called: int = 0
  turns: int = 0
  over: bool = False


def make(*, category: str = 'multi_turn_base', fault: float = 0.1) -> base.Env:
  """The conversations of a category, in BFCL's order, all held out.

  Args:
    category: one of CATEGORIES.
    fault: how often the demonstrator calls any function, without arguments.
  """
  if category not in CATEGORIES:
    raise ValueError(
      f'bfcl_multi_turn: no category {category!r}; categories: '
      f'{", ".join(CATEGORIES)}.'
    )
  base.require_probabilities('bfcl_multi_turn', fault=fault)
  bfcl.load(f'BFCL_v4_{category}.json')
  bfcl_apis.make([*bfcl_apis.FILES], {}, False)  # what is missing is told now
  step = replays.stepper(_start, _act)
  return base.Env(
    task=functools.partial(_task, category),
    reset=lambda task: State(task, (), task.prompt),
    step=functools.partial(_step, step),
    oracle=oracle,
    noisy=functools.partial(_noisy, fault),
    anchor=lambda state: state.shown,
  )


def oracle(state: State) -> str:
  """BFCL's calls of the turn, all at once, and then that it is done.

  It knows no way back: after calls of another kind it may fail.
  """
  wanted = state.task.data['wanted'][state.turn]
  if state.called or not wanted:
    return DONE
  return f'[{", ".join(wanted)}]'


def at_random(state: State, rng: np.random.Generator) -> str:
  """The end of a turn, or a call of any function without arguments."""
  names = [f['name'] for f in _functions(state.task.data, state.turn)]
  at = rng.integers(2 * len(names))
  return f'[{names[at]}()]' if at < len(names) else DONE


def _functions(data: Any, turn: int) -> list[Any]:
  """What the user has told of by a turn."""
  missing = {
    name
    for due, names in data['missing'].items()
    if int(due) > turn
    for name in names
  }
  return [
    function
    for name in data['classes']
    for function in bfcl_apis.functions(name)
    if function['name'] not in missing | {*data['excluded']}
  ]


def _task(category: str, split: str, index: int) -> episode.Task:
  name = f'BFCL_v4_{category}.json'
  id, entry = bfcl.question(f'bfcl/{category}', name, split, index)
  data = {
    'bfcl': entry['id'],
    'classes': entry['involved_classes'],
    'config': entry.get('initial_config', {}),
    'missing': entry.get('missed_function', {}),
    'excluded': entry.get('excluded_function', []),
    'said': [
      '\n'.join(message['content'] for message in turn)
      for turn in entry['question']
    ],
    'wanted': bfcl.load(f'possible_answer/{name}')[index]['ground_truth'],
  }
  system = bfcl.SYSTEM + bfcl.spelled(_functions(data, 0)) + '\n\n' + _AGAIN
  return episode.Task(id, data['said'][0], data, system)


def _start(task: episode.Task) -> types.SimpleNamespace:
  """The policy's APIs, BFCL's, and what the policy's have given."""
  data = task.data
  long_context = 'long_context' in data['bfcl']
  make_one = lambda: bfcl_apis.make(
    data['classes'], data['config'], long_context
  )
  return types.SimpleNamespace(
    ours=make_one(), theirs=make_one(), given=[], wanted=data['wanted'], turn=0
  )


def _act(game: types.SimpleNamespace, action: str) -> Any:
  """What calls give; of the end of a turn, whether it was right."""
  if action == DONE:
    wanted = _read(game.wanted[game.turn])
    given = [bfcl_apis.run(game.theirs, call) for call in wanted]
    game.turn += 1
    return not wanted or (
      bfcl_apis.same(game.ours, game.theirs) and _among(given, game.given)
    )
  made: Any = call_syntax_python.read(action)
  given = [bfcl_apis.run(game.ours, call) for call in made]
  game.given += given
  return '\n'.join(given)


def _read(wanted: list[str]) -> tuple[call_syntax_python.Call, ...]:
  made = call_syntax_python.read(', '.join(wanted))
  if isinstance(made, calls.Fault):
    raise base.EnvironmentFailure(f'bfcl: cannot read {wanted}: {made.error}')
  return made


def _among(some: list[str], all_given: list[str]) -> bool:
  """Whether some are among all, each as often."""
  left = [*all_given]
  for given in some:
    if given not in left:
      return False
    left.remove(given)
  return True


def _step(
  step: Callable, state: State, text: str
) -> tuple[State, episode.Turn]:
  if state.over:
    raise ValueError(f'{state.task.id}: the episode is over; reset first.')
  after = state._replace(turns=state.turns + 1)
  said = (answers.said(text) or '').strip()
  made = call_syntax_python.read(said)
  if isinstance(made, calls.Fault) and said.startswith('['):
    return after, episode.Turn(made.error)
  if made and not isinstance(made, calls.Fault):
    shown = step(state.task, state.actions, said)
    after = after._replace(
      actions=(*state.actions, said), shown=shown, called=state.called + 1
    )
    if after.called < STEPS:
      return after, episode.Turn(shown)
    return after._replace(over=True), episode.Turn(shown, done=True)
  return _end_turn(step, state, after)


def _end_turn(
  step: Callable, state: State, after: State
) -> tuple[State, episode.Turn]:
  """Hears the user again, if the turn that ends here was right."""
  data = state.task.data
  silent = bool(data['wanted'][state.turn]) and not state.called
  right = not silent and step(state.task, state.actions, DONE)
  turn = state.turn + 1
  after = after._replace(actions=(*state.actions, DONE), turn=turn, called=0)
  last = turn == len(data['said'])
  if last or not right:
    return after._replace(over=True), episode.Turn('', float(right), True)
  shown = data['said'][turn]
  if str(turn) in data['missing']:
    old = _functions(data, turn - 1)
    new = [f for f in _functions(data, turn) if f not in old]
    shown = f'You can call these, too:\n{bfcl.spelled(new)}\n{shown}'.strip()
  return after._replace(shown=shown), episode.Turn(shown)


def _noisy(fault: float, state: State, rng: np.random.Generator) -> str:
  return at_random(state, rng) if rng.random() < fault else oracle(state)
