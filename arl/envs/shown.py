"""An environment whose tasks come with one that is solved, shown before them.

A small pretrained model that is only told how to answer answers in prose; after
one conversation in which it was done right, it answers alike.
"""

import functools
from collections.abc import Mapping
from typing import Any

from arl import episode
from arl.envs import base

_LONGEST = 64  # actions of a solution


def make(*, env: Mapping[str, Any], index: int, split: str) -> base.Env:
  """The tasks of an environment after what its oracle does in one of them.

  Args:
    env: the block of the environment, `name` and keywords.
    index: of the task that is shown, 0 or more; before itself the next one is.
    split: of that task.

  Raises:
    ValueError: an environment without a name, a split or an index that there
      is not.
  """
  inner = base.inner('shown', env)
  if index < 0 or split not in (base.TRAIN, base.HELD_OUT):
    raise ValueError(
      f'shown: index {index} of the split {split!r}; give one from 0 on, of'
      f' {base.TRAIN!r} or {base.HELD_OUT!r}.'
    )
  _conversation(inner, inner.task(split, index))
  return inner._replace(
    task=functools.partial(_task, inner, (split, index)), harness=None
  )


def _task(
  inner: base.Env, place: tuple[str, int], split: str, index: int
) -> episode.Task:
  task, (shown, number) = inner.task(split, index), place
  other = inner.task(shown, number)
  if other.id == task.id:
    other = inner.task(shown, number + 1)
  example = _conversation(inner, other)
  return task._replace(id=f'shown/{task.id}', example=example)


def _conversation(inner: base.Env, task: episode.Task) -> tuple[str, ...]:
  """A prompt, then actions and observations in turn, an action last.

  Raises:
    ValueError: the oracle does not solve the task.
  """
  played = base.play(inner, task, inner.oracle, _LONGEST)
  if sum(one.turn.reward for one in played) < episode.SOLVED:
    raise ValueError(
      f'shown: the oracle does not solve {task.id!r}; show another index.'
    )
  texts = [task.prompt]
  for one in played:
    texts += [one.action, one.turn.text]
  return tuple(texts[:-1])
