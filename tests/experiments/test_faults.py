"""What the study of faults counts."""

import numpy as np

from arl.rollout import engine
from experiments.studies import faults


def sample(tokens):
  n = len(tokens)
  return engine.Sample(
    np.array(tokens, np.int32),
    np.zeros(n, np.float32),
    engine.LENGTH,
    np.zeros(n, np.int32),
  )


def test_what_went_wrong_is_counted():
  asked = faults.requests(24)
  right = [sample(faults.expected(request)) for request in asked]
  assert faults.count(asked, right) == (0, 0, 0)
  assert faults.count(asked, right[:-1]) == (1, 0, 0)
  assert faults.count(asked, [sample((1, 2, 3)), *right[1:]]) == (1, 0, 0)
  assert faults.count(asked, [right[1], *right[1:]]) == (0, 1, 0)
  turned = [right[-1], *right[1:-1], right[0]]
  assert faults.count(asked, turned) == (0, 0, 2)
