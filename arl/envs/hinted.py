"""An environment whose prompts begin with what only a teacher would know.

With a hint in its context a policy is its own teacher: `arl.rollout.privileged`
scores with one what was said without. A model that reads no hints yet learns to
from the demonstrator here, who acts on them.
"""

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

from arl import episode, names
from arl.envs import base, skills

HINT = 'hint'  # the key of a task's data
_LONGEST = 64  # actions of a solution


class State(NamedTuple):
  """Where an episode stands: its task without the hint, and the state there."""

  task: episode.Task
  inner: base.State


def answer(env: base.Env, task: episode.Task) -> str:
  """The action that answers the task right at once.

  Raises:
    ValueError: the environment has no reference answers.
  """
  if env.answer is None:
    raise ValueError(
      f'task {task.id!r}: its environment has no reference answers (Env.answer)'
      ' to hint at; hint at the steps.'
    )
  return env.answer(task)


def steps(env: base.Env, task: episode.Task) -> str:
  """The actions of the environment's oracle, a space between them."""
  played = base.play(env, task, env.oracle, _LONGEST)
  return ' '.join(exchange.action for exchange in played)


def skill(env: base.Env, task: episode.Task) -> str:
  """The skill of an episode of the demonstrator: what to do, or to avoid."""
  return skills.own(env, task, _LONGEST)


HINTS = {'answer': answer, 'steps': steps, 'skill': skill}


def told(task: episode.Task, hint: str) -> episode.Task:
  """The task with a hint in a line before its prompt."""
  return task._replace(prompt=f'{HINT}: {hint}\n{task.prompt}')


def make(*, env: Mapping[str, Any], hint: str) -> base.Env:
  """The tasks of an environment, each behind a hint that its demonstrator uses.

  Told the answer he gives it at once, whatever he could find out; told the
  steps, or a skill, he takes the steps.

  Args:
    env: the block of the environment, `name` and keywords.
    hint: 'answer', 'steps' or 'skill'.

  Raises:
    ValueError: an unknown hint, or an environment without a name.
  """
  if hint not in HINTS:
    raise ValueError(f'hinted: no hint {hint!r}{names.suggest(hint, HINTS)}')
  inner = base.inner('hinted', env)
  act = {
    'answer': lambda state, rng: answer(inner, state.task),
    'steps': lambda state, rng: inner.oracle(state.inner),
    'skill': lambda state, rng: inner.oracle(state.inner),
  }[hint]
  return inner._replace(
    task=functools.partial(_task, inner, hint),
    reset=functools.partial(_reset, inner),
    step=functools.partial(_step, inner),
    oracle=lambda state: inner.oracle(state.inner),
    noisy=act,
    answer=inner.answer and (lambda task: answer(inner, _plain(task))),
    anchor=inner.anchor and functools.partial(_anchor, inner),
    harness=None,
  )


def _task(inner: base.Env, hint: str, split: str, index: int) -> episode.Task:
  task = inner.task(split, index)
  text = HINTS[hint](inner, task)
  data = {**task.data, HINT: text}
  return told(task, text)._replace(id=f'hinted/{task.id}', data=data)


def _plain(task: episode.Task) -> episode.Task:
  """The task as it is without its hint."""
  data = {key: x for key, x in task.data.items() if key != HINT}
  _, _, prompt = task.prompt.partition(f'{task.data[HINT]}\n')
  id = task.id.removeprefix('hinted/')
  return task._replace(id=id, prompt=prompt, data=data)


def _reset(inner: base.Env, task: episode.Task) -> State:
  plain = _plain(task)
  return State(plain, inner.reset(plain))


def _step(
  inner: base.Env, state: State, text: str
) -> tuple[State, episode.Turn]:
  after, turn = inner.step(state.inner, text)
  return state._replace(inner=after), turn


def _anchor(inner: base.Env, state: State) -> str:
  assert inner.anchor is not None
  return inner.anchor(state.inner)
