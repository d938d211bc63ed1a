import math

import numpy as np
import pytest

from arl import episode
from arl.evaluate import summary


def played(rewards, status='finished', lengths=(2, 3)):
  """An episode: a prompt of two tokens, then turns with one observed token."""
  mask, turn, earned = [False] * 2, [0] * 2, [0.0] * 2
  for index, (length, reward) in enumerate(zip(lengths, rewards, strict=True)):
    mask += [True] * length + [False]
    turn += [index] * (length + 1)
    earned += [0.0] * (length - 1) + [reward, 0.0]
  n = len(mask)
  return episode.Episode(
    task=episode.Task('a', 'go', {}),
    sample=0,
    tokens=np.arange(n, dtype=np.int32),
    mask=np.array(mask),
    logp=np.zeros(n, np.float32),
    rewards=np.array(earned, np.float32),
    turn=np.array(turn, np.int32),
    status=status,
  )


def test_all_numbers():
  episodes = [
    played([0, 1]),
    played([0.5, 0.25], 'max_turns'),
    played([0], 'max_tokens', lengths=(8,)),
    played([1, 0]),
    played([1, 1], 'environment_error'),
    played([0, 0], 'reward_error'),
    played([0, 0], 'reward_error'),
    played([1, 1], 'infrastructure_error'),
    played([1, 1], 'dropped'),
  ]
  got = summary.success(episodes)
  low, high = got.pop('success_low'), got.pop('success_high')
  # 2 of 4 under z = 1.95996: 1/2 -+ z / (2 sqrt(4 + z^2)).
  assert (low, high) == pytest.approx((0.150039, 0.849961), abs=1e-6)
  assert got == {
    'success': 0.5,
    'reward': 0.6875,
    'turns': 1.75,
    'tokens': 5.75,
    'episodes': 9,
    'graded': 4,
    'failed': 4,
    'truncated': 2,
    'finished': 2,
    'max_turns': 1,
    'max_tokens': 1,
    'environment_error': 1,
    'reward_error': 2,
    'infrastructure_error': 1,
    'max_seconds': 0,
    'dropped': 1,
  }


def test_threshold():
  episodes = [played([0.3, 0.2]), played([0, 0.4])]
  assert summary.success(episodes)['success'] == 0
  assert summary.success(episodes, 0.4)['success'] == 1
  assert summary.success(episodes, 0.45)['success'] == 0.5


def test_float32_parts_reach_one():
  parts = played([0.9, 0.1])
  assert episode.total_reward(parts) < 1
  assert summary.success([parts])['success'] == 1


def test_nothing_graded_has_no_rate():
  got = summary.success([played([1, 1], 'environment_error')])
  assert got['graded'] == 0 and got['failed'] == 1
  means = (
    'success',
    'success_low',
    'success_high',
    'reward',
    'turns',
    'tokens',
  )
  assert all(math.isnan(got[name]) for name in means)


def test_refuses():
  with pytest.raises(ValueError, match='no episodes'):
    summary.success([])
  with pytest.raises(ValueError, match="'done', expected one of"):
    summary.success([played([0, 0], 'done')])


def test_judged_beside_what_the_environment_paid():
  given, paid = [0.2, 0.4, 0.9, 0.5], [0.0, 0.0, 1.0, 1.0]
  judged = [
    played([g, 0])._replace(
      extras={episode.PAID: played([p / 2, p / 2]).rewards}
    )
    for g, p in zip(given, paid)
  ]
  failed = judged[0]._replace(status='reward_error')
  got = summary.judged([*judged, failed, played([1, 0])])
  correlation = np.corrcoef(given, paid)[0, 1]
  assert got == {'success': 0.5, 'correlation': pytest.approx(correlation)}
  assert summary.judged(judged[:2]) == {'success': 0, 'correlation': 0}
  assert summary.judged([played([1, 0]), failed]) == {}
