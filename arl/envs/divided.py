"""An evaluation set divided by index: its first tasks to train on, its rest.

Some sets, such as BFCL's, have held-out tasks alone. Of what is learnt from the
first of them the rest can tell, but it is no score of the set any more.
"""

import functools
from collections.abc import Mapping
from typing import Any

from arl import episode
from arl.envs import base


def make(*, env: Mapping[str, Any], first: int, tasks: int) -> base.Env:
  """The environment of a block, its held-out tasks in two parts.

  Training task i is that of index i, held-out task i that of index first + i.

  Args:
    env: the block, `name` and keywords.
    first: how many of the tasks are to train on.
    tasks: how many there are.

  Raises:
    ValueError: the block names no environment, or a part has no task.
  """
  if not 0 < first < tasks:
    raise ValueError(
      f'divided: first is {first} of {tasks} tasks; leave each part one.'
    )
  whole = base.inner('divided', env)
  parts = {base.TRAIN: range(first), base.HELD_OUT: range(first, tasks)}
  return whole._replace(task=functools.partial(_task, whole, parts))


def _task(
  whole: base.Env, parts: Mapping[str, range], split: str, index: int
) -> episode.Task:
  base.task_id('divided', split, index)  # refuses what is no split or index
  part = parts[split]
  if index >= len(part):
    raise ValueError(
      f'divided: task index {index} of the split {split!r}, which has'
      f' {len(part)} tasks; give prompts.size, or --first and --tasks, within'
      ' that.'
    )
  task = whole.task(base.HELD_OUT, part[index])
  return task._replace(id=f'divided/{task.id}')
