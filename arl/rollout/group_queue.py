"""Whole groups between samplers and a learner: what is chosen, runs and waits.

A group gets a number when its task is chosen. It is issued once the gate of
`staleness` lets it through, and waits when it is finished; the learner takes a
batch by the window of `windowed`, the first chosen first. What would be too old
for the next update is given up. So no number is trained on twice, and none is
lost without being counted.

All of it is one immutable value, which a checkpoint can hold: what ran then has
to be issued again.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from arl import episode
from arl.rollout import staleness, stored, windowed


class Item(NamedTuple):
  """A group on its way.

  Attributes:
    number: in the order of choice.
    task: of the group.
    began: the version of the weights when it was issued; None before.
    episodes: all of its episodes, once they are finished; before, none.
  """

  number: int
  task: episode.Task
  began: int | None = None
  episodes: tuple[episode.Episode, ...] = ()

  def oldest(self) -> int | None:
    """The version of its oldest token, as far as it is known."""
    known = [
      version[version >= 0]
      for one in self.episodes
      if (version := one.extras.get('rollout_version')) is not None
    ]
    told = np.concatenate(known) if known else np.zeros(0)
    return int(told.min()) if told.size else self.began


class Gate(NamedTuple):
  """What is let through, in groups; see `staleness.capacity`.

  Attributes:
    per_update: of a batch.
    concurrent: that run at a time.
    lag: versions that they may be behind.
  """

  per_update: int
  concurrent: int
  lag: int


class Queue(NamedTuple):
  """The groups on their way.

  Attributes:
    window: which numbers may be taken.
    chosen: how many numbers were given.
    updates: batches that were taken.
    items: what was neither taken nor given up, by number, in order.
  """

  window: windowed.Window
  chosen: int = 0
  updates: int = 0
  items: Mapping[int, Item] = {}

  def pending(self) -> list[Item]:
    """What was not issued."""
    return [item for item in self.items.values() if item.began is None]

  def running(self) -> list[Item]:
    """What was issued and is not finished."""
    return [
      item
      for item in self.items.values()
      if item.began is not None and not item.episodes
    ]

  def finished(self) -> list[Item]:
    """What waits to be trained on."""
    return [item for item in self.items.values() if item.episodes]


def opened(width: int) -> Queue:
  """An empty queue with a window of so many groups; 0 for no bound."""
  return Queue(windowed.opened(width or math.inf))


def choose(queue: Queue, tasks: Sequence[episode.Task]) -> Queue:
  """Numbers tasks."""
  numbers = range(queue.chosen, queue.chosen + len(tasks))
  new = {n: Item(n, task) for n, task in zip(numbers, tasks)}
  return queue._replace(
    chosen=queue.chosen + len(tasks), items={**queue.items, **new}
  )


def issue(queue: Queue, version: int, gate: Gate) -> tuple[Queue, list[Item]]:
  """Issues what the gate lets through, the first chosen first.

  Args:
    queue: before.
    version: of the samplers' weights.
    gate: see there.
  """
  taken = staleness.restored(queue.updates, gate.per_update)
  room = staleness.capacity(
    version,
    taken + len(queue.finished()),
    len(queue.running()),
    per_update=gate.per_update,
    concurrent=gate.concurrent,
    lag=gate.lag,
  )
  issued = [item._replace(began=version) for item in queue.pending()[:room]]
  changed = {item.number: item for item in issued}
  return queue._replace(items={**queue.items, **changed}), issued


def finish(
  queue: Queue, number: int, episodes: Sequence[episode.Episode]
) -> Queue:
  """Notes the episodes of a group, unless it was given up meanwhile."""
  if number not in queue.items:
    return queue
  item = queue.items[number]._replace(episodes=tuple(episodes))
  return queue._replace(items={**queue.items, number: item})


def drop(queue: Queue, version: int, lag: int) -> tuple[Queue, list[Item]]:
  """Gives up what is too old for the update of a version.

  What still runs counts by the version that it began with.
  """
  old = [
    item
    for item in queue.items.values()
    if (known := item.oldest()) is not None
    and staleness.stale(known, version, lag)
  ]
  window = queue.window
  for item in old:
    window = windowed.passed(window, item.number)
  return _without(queue, old)._replace(window=window), old


def take(queue: Queue, most: int) -> tuple[Queue, list[Item]]:
  """A batch of finished groups, the first chosen first, as the window allows.

  Fewer than `most` where there are not so many: ask again later, of the queue
  as it was.
  """
  window, taken = queue.window, list[Item]()
  while len(taken) < most:
    left = [item for item in queue.finished() if item not in taken]
    there = windowed.allowed(window, [item.number for item in left])
    if not there:
      break
    window = windowed.take(window, there[0])
    taken.append(queue.items[there[0]])
  left_over = _without(queue, taken)
  return left_over._replace(window=window, updates=queue.updates + 1), taken


def _without(queue: Queue, gone: Sequence[Item]) -> Queue:
  numbers = {item.number for item in gone}
  items = {n: item for n, item in queue.items.items() if n not in numbers}
  return queue._replace(items=items)


def to_json(queue: Queue) -> dict[str, Any]:
  """A queue as JSON; what runs is told as what was not issued."""
  window, items = queue.window, queue.items.values()
  return {
    'width': 0 if math.isinf(window.width) else int(window.width),
    'head': window.head,
    'passed': sorted(window.taken),
    'chosen': queue.chosen,
    'updates': queue.updates,
    'items': [
      {
        'number': item.number,
        'task': episode.task_to_json(item.task),
        'began': item.began if item.episodes else None,
        'episodes': [stored.to_json(one) for one in item.episodes],
      }
      for item in items
    ],
  }


def from_json(made: Mapping[str, Any]) -> Queue:
  """The queue that `to_json` wrote."""
  window = opened(made['width']).window._replace(
    head=made['head'], taken=frozenset(made['passed'])
  )
  items = {
    one['number']: Item(
      one['number'],
      episode.task_from_json(one['task']),
      one['began'],
      tuple(stored.from_json(each) for each in one['episodes']),
    )
    for one in made['items']
  }
  return Queue(window, made['chosen'], made['updates'], items)
