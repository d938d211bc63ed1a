"""Short right answers, and the pairs that prefer them."""

import pytest
import test_rejection

from arl import episode
from arl.prompts import long2short

said, group = test_rejection.said, test_rejection.group


@pytest.mark.parametrize(
  'lengths, ok, best, pairs',
  [
    # Wrong and longer; right and half as long again; right and hardly longer.
    ([4, 5, 6, 5], [1, 0, 1, 1], 0, [(0, 1), (0, 2)]),
    ([4, 3, 4], [1, 0, 0], 0, []),  # wrong, and not longer
    ([5, 2, 2], [1, 1, 1], 1, [(1, 0)]),  # the first of several
    ([5, 2], [0, 0], None, []),
    ([], [], None, []),
  ],
)
def test_who_is_compared_with_whom(lengths, ok, best, pairs):
  assert long2short.pick_shortest_correct(lengths, ok) == best
  assert long2short.long2short_pairs(lengths, ok) == pairs


def test_a_factor():
  lengths, ok = [4, 5, 6], [1, 1, 1]
  found = long2short.long2short_pairs(lengths, ok, factor=1.25)
  assert found == [(0, 1), (0, 2)]


def test_the_shortest_of_a_group():
  made = long2short.shortest(
    [group(said('bbb'), said('aa'), said('c', reward=0))]
  )
  assert test_rejection.actions(made) == [['aa']]


def test_each_pair_is_a_group():
  members = group(
    said('aa'), said('bbb', reward=0.25), said('cccc'), said('d', reward=0)
  )
  made = long2short.pairs([members, group(said('e', reward=0))])
  assert test_rejection.actions(made) == [['aa', 'cccc'], ['aa', 'bbb']]
  assert [g.task.id for g in made] == ['a/pair/0', 'a/pair/1']
  for one in made:
    assert [episode.total_reward(e) for e in one.episodes] == [1, 0]
    assert {e.task.id for e in one.episodes} == {one.task.id}


def test_no_more_pairs_than_fit():
  members = group(said('a'), *(said('b' * n, reward=0) for n in (2, 5, 3)))
  made = long2short.pairs([members])
  assert test_rejection.actions(made) == [['a', 'bbbbb'], ['a', 'bbb']]
