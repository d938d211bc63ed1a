"""Which finished rollouts may be trained on: a window over their order.

Rollouts are numbered as they are issued. The trainer may take any finished one
of the `width` from the oldest that it has not taken, and none beyond, however
early it finished (Forge, MiniMax M2.5). A width of 1 is first in, first out,
where one slow rollout holds up all; without a bound the quick ones, and with
them the easy tasks, are trained on first. A rollout is overtaken by fewer than
`width` others, and overtakes fewer.

A group of rollouts is one item here. What never finishes would hold the window
for ever: give items a deadline (`overdue`), and let what is late be `passed`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Window(NamedTuple):
  """What has been taken.

  Attributes:
    width: how many numbers from the head on may be taken; math.inf for all.
    head: the oldest number that was not taken.
    taken: the numbers beyond the head that were.
  """

  width: float
  head: int = 0
  taken: frozenset[int] = frozenset()


def opened(width: float, head: int = 0) -> Window:
  """A window of which nothing was taken from `head` on.

  Raises:
    ValueError: a width that is no whole number from 1 on, nor infinite.
  """
  if width < 1 or (math.isfinite(width) and width != int(width)):
    raise ValueError(
      f'window: the width is {width}; it is a number of rollouts, 1 for strict'
      ' order up to math.inf for any.'
    )
  return Window(width, head)


def holds(window: Window, number: int) -> bool:
  """Whether a number may be taken now."""
  within = window.head <= number < window.head + window.width
  return within and number not in window.taken


def allowed(window: Window, finished: Sequence[int]) -> list[int]:
  """Those of the finished that may be taken now, in the order given."""
  return [number for number in finished if holds(window, number)]


def take(window: Window, number: int) -> Window:
  """The window after a number was taken to be trained on.

  Raises:
    ValueError: it may not be taken.
  """
  if not holds(window, number):
    raise ValueError(
      f'window: {number} may not be taken: the head is {window.head}, the width'
      f' {window.width}, and taken are {sorted(window.taken)}; ask `allowed`.'
    )
  return passed(window, number)


def passed(window: Window, number: int) -> Window:
  """The window after a number came to something, or to nothing, anywhere.

  Args:
    window: before.
    number: one that was given up, even beyond the window: nothing waits for it.
  """
  taken, head = window.taken | {number}, window.head
  while head in taken:
    head += 1
  return window._replace(
    head=head, taken=frozenset(n for n in taken if n > head)
  )


def overdue(
  issued: Mapping[int, float], now: float, deadline: float
) -> list[int]:
  """The numbers that have run for longer than a deadline, the oldest first.

  Args:
    issued: when each was, of those that run.
    now: the time, in the same unit.
    deadline: the longest that one may run.
  """
  return sorted(n for n, at in issued.items() if now - at > deadline)


def order(
  finish: Sequence[float], width: float
) -> tuple[list[int], list[float]]:
  """In which order, and when, a trainer that is always ready takes rollouts.

  Args:
    finish: when each finishes, in the order of issue.
    width: of the window.

  Returns:
    Numbers, and times; of those that may be taken the first to finish is.
  """
  window, now = opened(width), -math.inf
  numbers, times = [], []
  while window.head < len(finish):
    left = allowed(window, range(len(finish)))
    first = min(left, key=lambda n: (max(finish[n], now), finish[n], n))
    now = max(now, finish[first])
    window = take(window, first)
    numbers.append(first)
    times.append(now)
  return numbers, times
