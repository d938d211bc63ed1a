"""What an update is computed on, the same for every side. Needs numpy only."""

from typing import Any, NamedTuple

import numpy as np

from benchmarks import cases

RATE, B1, B2, EPS, MAX_NORM = 1e-6, 0.9, 0.99, 1e-8, 1.0  # of AdamW


class Row(NamedTuple):
  """Sequences of a model: each a prompt and as many tokens again, or more."""

  model: str
  rows: int
  prompt: int
  width: int

  @property
  def name(self) -> str:
    return f'step/{self.model}/{self.rows}x{self.width}'


def given(row: Row, folder: str, vocab: int) -> dict[str, Any]:
  """The arrays of a row: no padding, every token after the prompt trained."""
  rng = np.random.default_rng((cases.SEED, row.rows))
  shape = row.rows, row.width - row.prompt
  advantage = rng.normal(size=row.rows)
  return {
    'folder': folder,
    # Ids below 3 are padding and ends to a library.
    'tokens': rng.integers(3, vocab, (row.rows, row.width), np.int32),
    'prompt': row.prompt,
    'advantage': advantage.astype(np.float32),
    'noise': rng.normal(0, 0.1, shape).astype(np.float32),
  }


def lengths(count: int, longest: int) -> np.ndarray:
  """Of episodes, int [count]: lognormal, a few of them cut at the longest.

  The median is a fourth of the longest, a standard deviation a factor of 2.
  """
  rng = np.random.default_rng(cases.SEED)
  drawn = np.exp(rng.normal(np.log(longest / 4), np.log(2), count))
  return np.clip(drawn, 8, longest).astype(int)
