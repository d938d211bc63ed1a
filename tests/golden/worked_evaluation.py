"""Worked examples of what several samples of a problem say."""

import numpy as np
import worked_runs as w

from arl.evaluate import estimators


def _of(estimate, n: int, c: int, ks) -> w.Row:
  return lambda: np.array([estimate(n, c, k) for k in ks])


TABLE: w.Table = {
  'eval.pass_at': _of(estimators.pass_at_k, 16, 3, (1, 2, 4, 8, 16)),
  'eval.pass_hat': _of(estimators.pass_all_k, 16, 12, (1, 2, 4, 8)),
}
