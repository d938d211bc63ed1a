"""Answers of many rollouts as labels, where no right answer is known."""

import collections
import math
from collections.abc import Sequence


def majority(answers: Sequence[str]) -> str:
  """The most frequent answer that is not empty; of several, the first seen."""
  counts = collections.Counter(answer for answer in answers if answer)
  return max(counts, key=lambda answer: counts[answer], default='')


def agreement(answers: Sequence[str], label: str) -> list[float]:
  """1 for each answer that is the label; 0 for all where there is none."""
  return [float(bool(label) and answer == label) for answer in answers]


def co_rewarding(
  original: Sequence[str], paraphrased: Sequence[str]
) -> tuple[list[float], list[float]]:
  """Rewards of the answers to a question, and to a paraphrase of it.

  Each side's label is the majority of the other: Co-rewarding-I,
  arXiv:2508.00410. In its second form the labels are the `majority` of a
  reference model's answers, see `reference_rate`.
  """
  return (
    agreement(original, majority(paraphrased)),
    agreement(paraphrased, majority(original)),
  )


def reference_rate(
  step: int, steps: int, *, first: float = 0.01, last: float = 1e-5
) -> float:
  """What the reference takes of the policy at a step: a cosine.

  reference <- rate * policy + (1 - rate) * reference: Co-rewarding-II,
  arXiv:2508.00410.
  """
  share = min(max(step / steps, 0.0), 1.0)
  return last + 0.5 * (first - last) * (1 + math.cos(math.pi * share))


def label_entropy(labels: Sequence[str]) -> float:
  """The entropy of the labels of many questions, in nats; watch it fall."""
  total = len(labels)
  counts = collections.Counter(labels).values()
  return -sum(n / total * math.log(n / total) for n in counts)
