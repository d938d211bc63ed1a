"""The worked examples of the methods' definitions, and who computes each.

The numbers were computed from the published formulas alone, in NumPy, without
arl; they have six decimals. A table has a row a key, or several: each has to
give the number. A row names its recipe, where there is one.
"""

import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import worked_advantages
import worked_agentic
import worked_choosing
import worked_corrections
import worked_critics
import worked_distillation
import worked_evaluation
import worked_matching
import worked_preference
import worked_regressions
import worked_returns
import worked_runs
import worked_scheduling
import worked_supervised
import worked_surrogates
import worked_training

ROWS: worked_runs.Table = {
  **worked_advantages.TABLE,
  **worked_returns.TABLE,
  **worked_surrogates.TABLE,
  **worked_corrections.TABLE,
  **worked_regressions.TABLE,
  **worked_training.TABLE,
  **worked_preference.TABLE,
  **worked_distillation.TABLE,
  **worked_matching.TABLE,
  **worked_supervised.TABLE,
  **worked_critics.TABLE,
  **worked_agentic.TABLE,
  **worked_choosing.TABLE,
  **worked_evaluation.TABLE,
  **worked_scheduling.TABLE,
}
# What has no home in arl yet, and why.
NOT_HERE = {
  'swerl.sim': 'a reward, the similarity of patches: see test_rewards.py',
  'gigpo.AE_over_rows': 'what the official code does, and arl does not',
  'grpo_ma.V': 'on the way to A_thought',
  'gigpo_seed.outer': 'on the way to A_alpha05',
  'eval.biased_k4': 'the plug-in estimate, which arl does not have',
  'eval.maj_at_3_counts_5_3_2_correct0': 'simulated: see test_estimators.py',
}


def load(path: pathlib.Path) -> dict[str, np.ndarray]:
  """A file of numbers, written as '0.5', '[1, 2]' or '[1, 2; 3, 4]' or lists.

  Examples within examples have a dot in their key; what is no table of numbers
  is left out. A null, where a row has no such number, is 0.
  """
  made: dict[str, np.ndarray] = {}
  _flatten(json.loads(path.read_text(encoding='utf-8')), '', made)
  return made


def _flatten(told: Any, key: str, made: dict[str, np.ndarray]) -> None:
  if isinstance(told, dict):
    for name, inner in told.items():
      _flatten(inner, f'{key}.{name}' if key else name, made)
  elif isinstance(told, str):
    made[key] = _parsed(told)
  elif not any(isinstance(each, dict) for each in np.ravel(told)):
    made[key] = np.nan_to_num(np.asarray(told, float))


def _parsed(text: str) -> np.ndarray:
  if not text.startswith('['):
    return np.asarray(float(text))
  lines = text.strip('[]').split(';')
  numbers = [[float(x) for x in line.split(',')] for line in lines]
  return np.asarray(numbers if len(lines) > 1 else numbers[0])


def pairs(numbers: Mapping[str, np.ndarray], key: str) -> Iterator[tuple]:
  """(ours, theirs) of a key, a pair a row."""
  rows, theirs = ROWS[key], numbers[key]
  for row in rows if isinstance(rows, tuple) else (rows,):
    yield like(row(), theirs), theirs


def like(ours: Any, theirs: np.ndarray) -> np.ndarray:
  """A result in the shape of a number: one a sequence, or 0 off the mask."""
  if not isinstance(ours, np.ma.MaskedArray):
    return np.asarray(ours)
  if theirs.shape == ours.shape[:1]:
    return np.asarray([_one(row) for row in ours])
  flat = ours.filled(0.0)
  return flat.reshape(theirs.shape) if flat.size == theirs.size else flat


def _one(row: np.ma.MaskedArray) -> float:
  """The number that all tokens of a sequence have; nan if they differ."""
  kept = row.compressed()
  return kept[0] if np.ptp(kept) < 1e-12 else np.nan
