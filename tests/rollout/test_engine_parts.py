"""Parts of samples: cut by what they spell, joined by what was told first."""

import numpy as np

from arl.rollout import engine


def told(n, value):
  return np.full((n, 2, 1), value, np.int32)


def test_what_was_told_first_stays():
  made = engine.first_told([told(3, 7), told(5, 8), told(4, 9), told(6, 9)])
  assert made[:, 0, 0].tolist() == [7, 7, 7, 8, 8, 9]


def test_a_cut_keeps_every_column_of_what_is_left():
  sample = engine.Sample(
    np.arange(4, dtype=np.int32),
    -np.ones(4, np.float32),
    engine.LENGTH,
    np.zeros(4, np.int32),
    np.ones(4, np.float32),
    told(3 + 4 - 1, 0),
  )
  request = engine.Request((1, 2, 3), 4, (0,))
  for n in (1, 2, 4):
    part = engine.cut(sample, n)
    assert part.tokens.tolist() == list(range(n))
    engine.check_sample(part, request, engine.Sampling(stop=(n - 1,)))
  assert engine.cut(sample._replace(experts=None), 1).experts is None
