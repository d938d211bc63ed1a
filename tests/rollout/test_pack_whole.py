"""Whole groups in blocks of rows, which a microbatch must not cut."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from arl import episode
from arl.rollout import pack

WIDTH, BLOCK = 12, 4


def make(name, length, status=episode.FINISHED):
  mask = np.arange(length) > 0
  return episode.Episode(
    task=episode.Task(name, '', {}),
    sample=0,
    tokens=np.full(length, ord(name[0]) % 8, np.int32),
    mask=mask,
    logp=np.where(mask, -1, 0).astype(np.float32),
    rewards=np.zeros(length, np.float32),
    turn=np.zeros(length, np.int32),
    status=status,
  )


def group(name, *lengths):
  return [make(name, n) for n in lengths]


def place(groups, rows=8, extras=()):
  return pack.pack_whole(
    groups, rows=rows, width=WIDTH, max_turns=1, block=BLOCK, extras=extras
  )


def blocks_of(batch, index):
  """The blocks in which tokens of an episode lie."""
  rows, _ = np.nonzero((batch.seq.ids == index) & (batch.segments > 0))
  return set((rows // BLOCK).tolist())


@hypothesis.given(
  st.lists(
    st.lists(st.integers(2, WIDTH), min_size=1, max_size=BLOCK), max_size=4
  )
)
@hypothesis.settings(deadline=None)
def test_a_group_lies_in_one_block_and_every_episode_is_there(lengths):
  groups = [group(f'{i}', *each) for i, each in enumerate(lengths)]
  batch = place(groups, rows=16)
  index = 0
  for members in groups:
    blocks = set()
    for e in members:
      at = (batch.seq.ids == index) & (batch.segments > 0)
      np.testing.assert_array_equal(batch.tokens[at], e.tokens)
      blocks |= blocks_of(batch, index)
      index += 1
    assert len(blocks) == 1
  assert np.sum(batch.segments > 0) == sum(map(sum, lengths))


def test_a_group_goes_into_the_first_block_with_room():
  groups = [group('a', *[9] * 3), group('b', *[9] * 3), group('c', 9),
            group('d', 9)]  # fmt: skip
  batch = place(groups)
  blocks = [blocks_of(batch, i) for i in range(8)]
  assert blocks == [{0}] * 3 + [{1}] * 3 + [{0}, {1}]


def test_episodes_share_rows_within_a_block():
  batch = place([group('a', 6, 6, 6, 6), group('b', 6, 6, 6, 6)])
  filled = np.any(batch.segments > 0, axis=1)
  assert filled.tolist() == [True] * 4 + [False] * 4
  assert batch.group.ids[0, 0] != batch.group.ids[2, 0]


def test_a_block_that_is_not_full_ends_in_empty_rows():
  batch = place([group('a', 9, 9, 9), group('b', 9, 9, 9)])
  filled = np.any(batch.segments > 0, axis=1)
  assert filled.tolist() == [True, True, True, False] * 2


def test_nothing_is_padding():
  assert not place([]).segments.any()
  assert place([], extras=['truncated']).extras['truncated'].shape == (8, WIDTH)


def test_extras_follow_their_episodes():
  cut = [make('b', 9, episode.MAX_TOKENS)]
  groups = [group('a', 9, 9, 9), cut, group('c', 9, 9)]
  batch = place(groups, extras=['truncated'])
  truncated = batch.extras['truncated']
  for i in range(6):
    at = (batch.seq.ids == i) & (batch.segments > 0)
    assert truncated[at].all() == truncated[at].any() == (i == 3)


def test_what_does_not_fit():
  with pytest.raises(ValueError) as caught:
    place([group('a', 9), group('b', *[9] * 5)], rows=12)
  assert str(caught.value) == (
    "pack: the 5 episodes of task 'b' do not fit into 4 rows; raise"
    ' config.updates.microbatch.'
  )
  with pytest.raises(ValueError) as caught:
    place([group(name, *[9] * 3) for name in 'abc'], rows=10)
  assert str(caught.value) == (
    'pack: the groups need 3 blocks of 4 rows, but a batch has 10 rows; raise'
    ' rows.'
  )
  with pytest.raises(ValueError, match='has 13 tokens, but a row holds 12'):
    place([group('a', 13)])
