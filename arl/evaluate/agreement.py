"""Why the log-probs of a sampler and of the trainer differ, told from tokens.

A sample is a mapping with `logp` and `old_logp`, what the sampler reported and
what the trainer computed, `mask` and `turn`, all [n] as of an episode.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Sample = Mapping[str, Any]
CLOSE = 1e-3  # nats that two log-probs may differ by and be called equal
SHIFT, TEMPERATURE, TURN = 'shift', 'temperature', 'turn'
SENTENCES = {
  SHIFT: "the sampler's log-probs are those of the neighbouring tokens: they"
  ' are shifted by one',
  TEMPERATURE: 'the sampler is surer or less sure of everything by one factor:'
  ' it used another temperature than the trainer',
  TURN: 'some turns agree to the last digit and others not at all: their tokens'
  ' are not those that were sampled, as when text is tokenized again',
  '': 'no planted cause fits: precision, other weights, or another model',
}
_LEAST = 8  # tokens that say anything


def cause(samples: Sequence[Sample]) -> str:
  """SHIFT, TEMPERATURE, TURN, or '' where none of them fits.

  Shifted by one: the one agrees with the other's neighbours. Temperature: the
  logits of the chosen tokens' probabilities are proportional, which for two
  choices is exact; that explains half of the squared difference or more. Turns:
  at least a tenth of them agree within CLOSE although not all do.
  """
  pairs = [_pairs(one) for one in samples]
  pairs = [x for x in pairs if np.all(np.isfinite([x[0], x[1]]))]
  if sum(len(ours) for ours, _, _ in pairs) < _LEAST or not _differ(pairs):
    return ''
  if max(_shifted(pairs, by) for by in (-1, 1)) > 0.99:
    return SHIFT
  if _heated(pairs) > 0.5:
    return TEMPERATURE
  agree = [
    bool(np.max(np.abs(ours[turn == t] - theirs[turn == t])) < CLOSE)
    for ours, theirs, turn in pairs
    for t in np.unique(turn)
  ]
  return TURN if 0.1 <= np.mean(agree) < 1 else ''


def _pairs(one: Sample) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """(trainer's, sampler's, turn) of the sampled tokens."""
  mask = np.asarray(one['mask'], bool)
  columns = (one['old_logp'], one['logp'], one['turn'])
  ours, theirs, turn = (np.asarray(x)[mask] for x in columns)
  return ours.astype(float), theirs.astype(float), turn


def _differ(pairs) -> bool:
  return any(
    ours.size and np.max(np.abs(ours - theirs)) >= CLOSE
    for ours, theirs, _ in pairs
  )


def _shifted(pairs, by: int) -> float:
  """Correlation with the tokens so many before, within a turn."""
  found = []
  for ours, theirs, turn in pairs:
    same = turn[1:] == turn[:-1]
    early, late = (ours, theirs) if by < 0 else (theirs, ours)
    found.append(np.stack([early[:-1][same], late[1:][same]]))
  return correlation(*np.concatenate(found, axis=1))


def _heated(pairs) -> float:
  """Share of the squared difference of logits that one factor explains.

  The factor is around 0, where one of few choices is sure, or around a mean,
  where all choices are alike and their probabilities do not move. None where
  the two are hardly related, which no temperature does.
  """
  ours, theirs = (
    _logit(np.concatenate([pair[i] for pair in pairs])) for i in (0, 1)
  )
  if correlation(ours, theirs) < 0.8:
    return 0.0
  gap = theirs - ours
  around = correlation(ours, gap) ** 2
  factor = np.sum(ours * gap) / max(np.sum(ours**2), 1e-12)
  whole = np.sum(gap**2)
  left = np.sum((gap - factor * ours) ** 2) / whole if whole > 0 else 1.0
  return float(max(around, 1 - left))


def _logit(logp: np.ndarray) -> np.ndarray:
  logp = np.minimum(logp, -1e-6)
  return logp - np.log(-np.expm1(logp))


def correlation(x: np.ndarray, y: np.ndarray) -> float:
  """Pearson's; 0 where one of them is constant or there are under 3."""
  if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
    return 0.0
  return float(np.corrcoef(x, y)[0, 1])
