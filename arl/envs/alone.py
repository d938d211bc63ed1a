"""One training task of another environment, and none beside it."""

from collections.abc import Mapping
from typing import Any

from arl.envs import base


def make(*, env: Mapping[str, Any], task: int) -> base.Env:
  """The environment of the block `env`, whose every training task is one.

  What is held out stays as it is.

  Args:
    env: its `name` and keywords.
    task: index of the training task.

  Raises:
    ValueError: the block names no environment, or the index is negative.
  """
  if task < 0:
    raise ValueError(f'alone: task is {task}; give an index, 0 or more.')
  whole = base.inner('alone', env)

  def pick(split, index):
    return whole.task(split, task if split == base.TRAIN else index)

  return whole._replace(task=pick)
