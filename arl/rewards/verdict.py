"""What a verifier answers: a score, an error, or that it ran out of time."""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple, Protocol

SCORED = 'scored'
ERROR = 'error'
TIMEOUT = 'timeout'


class Verdict(NamedTuple):
  """The answer of a verifier.

  A failure is never a score: what could not be judged is no wrong answer, and
  whoever reads a verdict decides what becomes of the sample.

  Attributes:
    score: a finite number, or None where there is none.
    status: SCORED, ERROR (the verifier or what it needs failed) or TIMEOUT (no
      verdict within the limits of time and size).
    detail: for people: why.
  """

  score: float | None
  status: str
  detail: str = ''


class Scorer(Protocol):
  """What judges texts with a model: one verdict a text, in their order."""

  def score(self, texts: Sequence[str]) -> list[Verdict]: ...


def scored(score: float, detail: str = '') -> Verdict:
  """A verdict with a score; an error if it is not a finite number."""
  score = float(score)
  if not math.isfinite(score):
    return error(f'the verifier gave {score}, which is no score')
  return Verdict(score, SCORED, detail)


def error(detail: str) -> Verdict:
  """A verdict without a score: something around the answer failed."""
  return Verdict(None, ERROR, detail)


def timeout(detail: str) -> Verdict:
  """A verdict without a score: the answer could not be judged in time."""
  return Verdict(None, TIMEOUT, detail)


def of(value: object) -> Verdict:
  """What a verifier returned as a verdict; numbers and booleans are scores."""
  if isinstance(value, Verdict):
    if value.score is None:
      return value
    return scored(value.score, value.detail)
  if isinstance(value, int | float):
    return scored(value)
  return error(
    f'the verifier returned a {type(value).__name__}; return a number or a'
    ' Verdict'
  )


def scores(verdicts: Sequence[Verdict]) -> list[float]:
  """The scores of those that have one."""
  return [v.score for v in verdicts if v.score is not None]


def failures(verdicts: Sequence[Verdict]) -> float:
  """The share without a score, 0 of none: what a run watches, and stops on."""
  if not verdicts:
    return 0.0
  return statistics.fmean(v.status != SCORED for v in verdicts)
