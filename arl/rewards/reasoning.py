"""Rewards for thinking as long as it helps, and for saying what is missing."""

from collections.abc import Sequence

CONCISE, LONG, WRONG = 'A', 'B', 'C'


def drqa_label(correct: bool, concise: bool) -> str:
  """What a chain of thought is: right and short, right and long, or wrong.

  The short ones come from asking several questions at once. Of a question
  whose batched chain is no shorter, there is nothing to learn: drop it.
  """
  if not correct:
    return WRONG
  return CONCISE if concise else LONG


def drqa(said: str, label: str) -> float:
  """1 for judging a chain of thought as it is (DRQA, arXiv:2508.17803).

  The model learns to judge, and then to write, shorter ones. Known from
  digests, the letters too. To pay for brevity itself use `lengths.in_group`.
  """
  return float(said.strip() == label)


def after_first(lengths: Sequence[int], first: int | None) -> float | None:
  """The share of a thought that follows a sentence of it.

  Args:
    lengths: tokens of each sentence.
    first: the index of the sentence that first names what is missing, or None.
  """
  total = sum(lengths)
  if first is None or not total:
    return None
  return sum(lengths[first + 1 :]) / total


def sure(abstained: bool, rest: float | None, *, weight: float = 0.5) -> float:
  """For a task that lacks something: saying so, and thinking no longer.

  weight for abstaining, or asking, and the rest of it for the share of the
  thought that it took to notice (SURE, arXiv:2609.20846). Known from digests.
  A task that can be answered is paid for the right answer and nothing else.

  Args:
    abstained: whether the policy said, or asked for, what is missing.
    rest: what `after_first` gives; None earns nothing for efficiency.
    weight: of abstaining.
  """
  efficiency = 0.0 if rest is None else 1.0 - rest
  return weight * abstained + (1 - weight) * efficiency


def ternary(correct: bool, abstained: bool) -> float:
  """1 for a right answer, 0 for none, -1 for a wrong one."""
  if abstained:
    return 0.0
  return 1.0 if correct else -1.0
