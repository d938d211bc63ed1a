"""Episodes survive JSON bit for bit."""

import json

import numpy as np
import tiny

from arl import episode
from arl.rollout import stored


def test_an_episode_comes_back_bit_for_bit():
  (one,) = tiny.episodes(1, 1)
  n = len(one.tokens)
  logp = one.logp.copy()
  logp[-1] = np.nan
  task = episode.Task('x', 'p', {'a': [1, {'b': 2}]}, 's', ('u', 'v'))
  turn = episode.Turn('seen', 0.1, True, None)
  exchanges = (
    episode.Exchange('said', turn, 'anchor'),
    episode.Exchange('said', turn._replace(process=0.3)),
  )
  extras = {
    'rollout_version': np.arange(n, dtype=np.int32),
    'routed_experts': np.arange(n * 6, dtype=np.int32).reshape(n, 3, 2),
  }
  one = one._replace(
    task=task, logp=logp, exchanges=exchanges, extras=extras, row=2, error='e'
  )
  made = stored.from_json(json.loads(json.dumps(stored.to_json(one))))
  for name in ('tokens', 'mask', 'logp', 'rewards', 'turn'):
    left, right = getattr(made, name), getattr(one, name)
    assert left.dtype == right.dtype and left.tobytes() == right.tobytes()
  assert made.extras.keys() == extras.keys()
  for name, column in extras.items():
    np.testing.assert_array_equal(made.extras[name], column)
  arrays = dict.fromkeys(
    ('tokens', 'mask', 'logp', 'rewards', 'turn', 'extras')
  )
  assert made._replace(**arrays) == one._replace(**arrays)
  made.tokens[0] = 5  # an array of its own
