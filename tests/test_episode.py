"""Trajectories of several rows: counted once, packed as one sequence."""

import numpy as np
import pytest

from arl import episode, levels
from arl.evaluate import estimators, summary
from arl.prompts import select
from arl.rollout import pack


def rows(name, sample, *rewards, status=episode.FINISHED):
  """A trajectory of one row a reward: prompt, two sampled tokens, a reward."""
  made = []
  for row, reward in enumerate(rewards):
    made.append(
      episode.Episode(
        task=episode.Task(name, '', {}),
        sample=sample,
        tokens=np.array([1, 2, 3], np.int32),
        mask=np.array([False, True, True]),
        logp=np.array([0, -1, -1], np.float32),
        rewards=np.array([0, 0, reward], np.float32),
        turn=np.full(3, row, np.int32),
        status=status,
        row=row,
      )
    )
  return made


EPISODES = [*rows('a', 0, 0, 0, 1), *rows('a', 1, 1), *rows('b', 0, 0, 0)]


def test_rows_are_joined():
  whole = episode.whole(EPISODES)
  assert [len(e.tokens) for e in whole] == [9, 3, 6]
  assert [episode.total_reward(e) for e in whole] == [1, 1, 0]
  assert whole[0].turn.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_they_count_once():
  told = summary.success(EPISODES)
  assert told['episodes'] == told['graded'] == 3
  assert told['success'] == pytest.approx(2 / 3)
  assert told['turns'] == 2 and told['tokens'] == 4
  assert estimators.counts_by_task(EPISODES, 1) == [(2, 2), (1, 0)]


def test_a_group_differs_by_trajectories():
  same = episode.groups([*rows('a', 0, 0, 1), *rows('a', 1, 1)])
  assert not select.varied(same)
  assert not select.most_varied(same)
  differ = episode.groups([*rows('a', 0, 0, 1), *rows('a', 1, 0)])
  assert select.varied(differ) == select.most_varied(differ) == differ


@pytest.mark.parametrize('how', [pack.pad, pack.pack])
def test_they_are_one_sequence(how):
  batch = how(EPISODES, rows=6, width=6, max_turns=3)
  seq = np.broadcast_to(batch.seq.ids, batch.mask.shape)
  total = levels.segment_sum(batch.rewards, batch.seq, batch.mask)
  assert total.tolist() == [1, 1, 0, 0, 0, 0]
  for i, turns in enumerate(([0, 1, 2], [0], [0, 1])):
    mine = (seq == i) & (batch.segments > 0)
    assert set(batch.turn.ids[mine].tolist()) == {i * 3 + t for t in turns}
  counts = levels.segment_sum(1.0 * batch.mask, batch.seq, batch.mask)
  assert counts.tolist() == [6, 2, 4, 0, 0, 0]


def test_rows_that_do_not_fit():
  with pytest.raises(ValueError, match='the 6 rows of .* fill 6, but .* has 5'):
    pack.pad(EPISODES, rows=5, width=6, max_turns=3)
  with pytest.raises(ValueError, match='3 trajectories for a batch of 2 rows'):
    pack.pack(EPISODES, rows=2, width=6, max_turns=3)
