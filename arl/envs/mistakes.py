"""Which action of a failed episode was the first wrong one.

What SRPO (arXiv:2605.25507) asks a policy about its own failures. `make` has a
model learn to answer, `resets.by_policy` asks. Wrong is the first action that
is not what the environment's oracle would do there: up to it all states are the
oracle's own. `asked_why` is what `retries` asks: what went wrong, in words.
"""

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from arl import episode
from arl.envs import base, skills
from arl.rewards import judgements

_QUESTION = 'which action is the first wrong one? say its number'
_REFLECT = (
  'what went wrong? say from which action to try again, and how: "2: ..."'
)
_REFLECTION = re.compile(r'\s*([0-9]+)\s*:')
_TRIES = 1000  # episodes of a demonstrator, to find one with a mistake


class _Played(NamedTuple):
  exchanges: list[episode.Exchange]
  first: int


def asked(
  task: episode.Task, exchanges: Sequence[episode.Exchange]
) -> episode.Task:
  """The task to name the first wrong action; they are numbered from 1."""
  prompt = f'{_QUESTION}\n{_numbered(task, exchanges)}'
  return episode.Task(f'mistake/{task.id}', prompt, {})


def asked_why(
  task: episode.Task, exchanges: Sequence[episode.Exchange]
) -> episode.Task:
  """The task to reflect on a failure, and to say where to try again."""
  last = exchanges[-1].turn.text
  seen = f'\n> {last}' if last else ''
  prompt = f'{_REFLECT}\n{_numbered(task, exchanges)}{seen}'
  return episode.Task(f'reflection/{task.id}', prompt, {})


def pivot(text: str, turns: int) -> int | None:
  """The turn that a reflection begins with, from 0; None where it does not."""
  found = _REFLECTION.match(text)
  named = int(found[1]) if found else 0
  return named - 1 if 1 <= named <= turns else None


def _numbered(task: episode.Task, exchanges: Sequence[episode.Exchange]) -> str:
  numbered = [
    exchange._replace(action=f'{i} {exchange.action}')
    for i, exchange in enumerate(exchanges, start=1)
  ]
  return judgements.shown(task, numbered)


def said(turn: int) -> str:
  """The answer that names a turn, counted from 0."""
  return str(turn + 1)


def read(text: str, turns: int) -> int | None:
  """The turn that an answer names, from 0; None where it names none.

  It may say more than the number, but no other one.
  """
  found = {int(digits) for digits in re.findall('[0-9]+', text)}
  named = found.pop() if len(found) == 1 else 0
  return named - 1 if 1 <= named <= turns else None


def first(
  env: base.Env,
  states: Sequence[base.State],
  exchanges: Sequence[episode.Exchange],
) -> int | None:
  """The first turn whose action is not the oracle's; None if all are.

  Args:
    env: whose oracle knows.
    states: before each action.
    exchanges: with the actions.
  """
  for turn, (state, exchange) in enumerate(zip(states, exchanges)):
    if exchange.action.strip() != env.oracle(state).strip():
      return turn
  return None


def make(*, env: Mapping[str, Any], max_turns: int) -> base.Env:
  """Failures of the demonstrator of an environment, to find the mistake in.

  The number of the first wrong action earns 1, any other answer 0. There is one
  action.

  Args:
    env: the block of the environment, `name` and keywords.
    max_turns: actions of an episode at most, as in rollouts.

  Raises:
    ValueError: an environment without a name, or no action.
  """
  inner = base.played_in('mistakes', env, max_turns)
  return base.one_answer(
    functools.partial(_task, inner, max_turns),
    right=lambda task: said(task.data['first']),
    earns=_earned,
  )


def _task(
  inner: base.Env, max_turns: int, split: str, index: int
) -> episode.Task:
  task = inner.task(split, index)
  played = _failure(inner, task, max_turns)
  data = {'first': played.first, 'turns': len(played.exchanges)}
  return asked(task, played.exchanges)._replace(data=data)


def _failure(env: base.Env, task: episode.Task, max_turns: int) -> _Played:
  """A failure of the demonstrator, the same for a task.

  Raises:
    ValueError: it does not fail.
  """
  rng = skills.randomness(task)
  for _ in range(_TRIES):
    states: list[base.State] = []

    def act(state, states=states):
      states.append(state)
      return env.noisy(state, rng)

    exchanges = base.play(env, task, act, max_turns)
    found = first(env, states, exchanges)
    earned = sum(exchange.turn.reward for exchange in exchanges)
    if found is not None and earned < episode.SOLVED:
      return _Played(exchanges, found)
  raise ValueError(
    f'mistakes: in {_TRIES} episodes of task {task.id!r} the demonstrator made'
    ' no mistake that it failed by; give the environment one that fails more'
    ' often, or fewer max_turns.'
  )


def _earned(task: episode.Task, text: str) -> float:
  return float(read(text, task.data['turns']) == task.data['first'])
