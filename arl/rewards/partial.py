"""Something for an answer that is wrong, and can be read."""

import numpy as np

from arl import episode
from arl.rewards import shaping


def answered() -> shaping.Term:
  """1 for an episode that came to its end and is not right.

  The partial reward of ReFT (arXiv:2401.08967), which gives it a weight of 0.1
  and asks whether an answer can be extracted. Here it can if the environment
  ended the episode: one that a limit cut off gave none.
  """

  def wrong(one):
    ended = one.status == episode.FINISHED
    return float(ended and episode.total_reward(one) < episode.SOLVED)

  return lambda played: np.array([wrong(one) for one in played])
