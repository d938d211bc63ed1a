"""What the size of a group does to binary rewards, in numbers of the host.

The group-standard-deviation identity (arXiv:2607.00152): in a group of `size`
with `correct` right answers and population deviation sigma, mean |R - mean| is
2 sigma^2, and mean |R - mean| / sigma is 2 sigma. p is a task's success rate.
"""

import math


def deviation(correct: int, size: int) -> float:
  """sigma = sqrt(correct * (size - correct)) / size."""
  return math.sqrt(correct * (size - correct)) / size


def chance_unanimous(p: float, size: int) -> float:
  """The probability that a group compares nothing: p^size + (1 - p)^size."""
  return p**size + (1 - p) ** size


def smallest_size(p: float, error: float) -> float:
  """From which size sigma falls short by at most `error`, on average.

  The paper's rule 1 / (8 error p (1 - p)), in relative terms; inf where p is 0
  or 1, as no group of such a task compares anything.
  """
  spread = p * (1 - p)
  return 1 / (8 * error * spread) if spread else math.inf
