"""Streams of tasks: which problems a step works on.

A stream is a pure function of the step, so its position is the step itself: a
resumed run sees the tasks that an uninterrupted one would have seen.
"""

from collections.abc import Callable

import numpy as np

from arl import episode


def shuffled(
  task: Callable[[int], episode.Task], *, size: int, batch: int, seed: int
) -> Callable[[int], list[episode.Task]]:
  """Tasks 0 to size - 1, in a new order every epoch.

  An epoch has size // batch steps; what is left over of one order waits for the
  next, so that no step meets a task twice.

  Args:
    task: index -> Task.
    size: how many tasks there are.
    batch: tasks a step.
    seed: of the orders.

  Returns:
    step -> the tasks of that step.

  Raises:
    ValueError: a batch larger than the tasks.
  """
  if not 1 <= batch <= size:
    raise ValueError(
      f'prompts: a batch of {batch} tasks from {size}; set prompts.batch to 1'
      f' to {size}, or raise prompts.size.'
    )
  steps = size // batch

  def tasks(step: int) -> list[episode.Task]:
    epoch, place = divmod(step, steps)
    order = np.random.default_rng((seed, epoch)).permutation(size)
    return [task(int(i)) for i in order[place * batch : (place + 1) * batch]]

  return tasks
