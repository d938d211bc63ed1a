"""What a wrong answer earns."""

import numpy as np

from arl import episode
from arl.rewards import partial


def one(reward, status):
  rewards = np.array([0, reward], np.float32)
  return episode.Episode(
    episode.Task('a', '', {}), 0, np.ones(2, np.int32), np.ones(2, bool),
    np.zeros(2, np.float32), rewards, np.zeros(2, np.int32), status,
  )  # fmt: skip


def test_an_answer_that_is_wrong_earns_something():
  played = [
    one(1.0, episode.FINISHED),
    one(0.0, episode.FINISHED),
    one(0.0, episode.MAX_TURNS),
    one(0.0, episode.MAX_TOKENS),
  ]
  np.testing.assert_array_equal(partial.answered()(played), [0, 1, 0, 0])
