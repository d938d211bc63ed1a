"""The mathematics of a search over actions, as functions of numpy arrays.

Of a state with K actions: `value` [K] is the mean outcome of the simulations
that went through each, `visits` [K] how many those were, and `ranked` [K] what
a ranking makes of them. As in Agent Q (arXiv:2408.07199, 4.1 and 4.2).
"""

from collections.abc import Sequence

import numpy as np


def reciprocal(order: Sequence[int]) -> np.ndarray:
  """What a ranking makes of actions: 1 for the best, then 1/2, 1/3, ..., [K].

  Args:
    order: the actions by index, the best first.

  Raises:
    ValueError: it does not name each of 0 to K - 1 once.
  """
  if sorted(order) != list(range(len(order))):
    raise ValueError(
      f'the ranking {list(order)} must name each of 0 to {len(order) - 1} once.'
    )
  made = np.zeros(len(order))
  made[list(order)] = 1 / np.arange(1, len(order) + 1)
  return made


def blend(
  value: np.ndarray, ranked: np.ndarray | None, alpha: float
) -> np.ndarray:
  """alpha * value + (1 - alpha) * ranked, [K]; the value, if none is ranked."""
  return value if ranked is None else alpha * value + (1 - alpha) * ranked


def upper(worth: np.ndarray, visits: np.ndarray, c: float) -> np.ndarray:
  """worth + c sqrt(log N / (1 + n)), [K]: what an action may yet be worth.

  N is the sum of all visits n; before the first of them there is no bonus.
  """
  total = max(int(np.sum(visits)), 1)
  return worth + c * np.sqrt(np.log(total) / (1 + visits))


def backup(value: float, visits: int, outcome: float) -> float:
  """The mean of one outcome more."""
  return (value * visits + outcome) / (visits + 1)
