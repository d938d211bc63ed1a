"""Worked examples of packing, merging and of what is trained on when."""

import numpy as np
import worked_runs as w

from arl.rollout import pack, staleness, windowed
from arl.train import prefixes

LENGTHS = 7, 6, 5, 4, 4, 3, 2, 1
FINISH = 9, 1, 2, 1, 3, 1, 2, 8


def _bins():
  rows = pack.best_fit(LENGTHS, 8)
  return [[LENGTHS[i] for i in row] for row in rows]


def _gate():
  seen = (0, 0, 0), (0, 4, 8), (1, 4, 8), (1, 4, 12)
  bounds = {'per_update': 4, 'concurrent': 16, 'lag': 2}
  return [staleness.capacity(*counts, **bounds) for counts in seen]


def _merged():
  """Three sequences, of whose 13 tokens 8 are left; which, is ours."""
  rows = [[1, 2, 3, 4, 5], [1, 2, 3, 6, 0], [1, 2, 7, 8, 0]]
  tokens = np.array(rows, np.int32)
  there = tokens > 0
  columns = {
    'tokens': tokens,
    'positions': np.where(there, np.arange(5, dtype=np.int32), 0),
    'segments': there.astype(np.int32),
    'mask': there & (np.arange(5) > 0),
  }
  return columns, prefixes.place(columns, 3)


TABLE: w.Table = {
  'best_fit.bins': _bins,
  'best_fit.n_bins': lambda: len(_bins()),
  'windowed_fifo.W1': lambda: windowed.order(FINISH, 1),
  'windowed_fifo.W4': lambda: windowed.order(FINISH, 4),
  'windowed_fifo.W8': lambda: windowed.order(FINISH, 8),
  'staleness': _gate,
  'prefix_tree.tokens_separate': lambda: np.sum(_merged()[0]['segments'] > 0),
  'prefix_tree.tokens_tree': lambda: np.sum(_merged()[1][prefixes.PLACES] >= 0),
  'prefix_tree.ratio': lambda: round(prefixes.share(*_merged()), 4),
}
