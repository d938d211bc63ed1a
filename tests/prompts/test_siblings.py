"""Pairs of a search: which actions of a state are compared."""

import numpy as np
import pytest
import test_pairs

from arl import episode
from arl.prompts import pairs


def walk(first, second, values, reward=0.0):
  """p, an action, an observation, an action; and what the two are worth."""
  text = 'p' + first + 'o' + second
  mask = '0' + '1' * len(first) + '0' + '1' * len(second)
  turn = '0' * (2 + len(first)) + '1' * len(second)
  worth = np.full(len(text), np.nan, np.float32)
  for k, value in enumerate(values):
    worth[[m == '1' and t == str(k) for m, t in zip(mask, turn)]] = value
  ranked = np.isfinite(worth)
  extras = {'action_value': worth, 'ranked': ranked}
  return test_pairs.one('t', reward, text, mask, turn, extras=extras)


def told(groups):
  """(better, worse) as texts, with their rewards."""
  return [
    [
      (bytes(one.tokens.tolist()).decode(), episode.total_reward(one))
      for one in group.episodes
    ]
    for group in groups
  ]


def test_actions_of_one_state_that_differ_by_enough():
  members = [
    walk('a!', 'x!', (0.5, 1.0)),
    walk('a!', 'y!', (0.5, 0.25)),
    walk('b!', 'x!', (1.0, np.nan)),
    walk('c!', 'x!', (0.375, np.nan)),
    walk('b!', 'z!', (1.0, np.nan)),  # again, and played out otherwise
    walk('b!', 'z!', (1.0, np.nan)),
  ]
  made = pairs.siblings([test_pairs.group(*members)])
  assert told(made) == [
    [('pb!', 1.0), ('pa!', 0.5)],
    [('pb!', 1.0), ('pc!', 0.375)],
    [('pa!ox!', 1.0), ('pa!oy!', 0.25)],
  ]
  assert told(pairs.siblings([test_pairs.group(*members)], theta=0.7)) == [
    [('pa!ox!', 1.0), ('pa!oy!', 0.25)]
  ]
  assert told(pairs.siblings([test_pairs.group(*members)], theta=0.1)) == [
    [('pb!', 1.0), ('pa!', 0.5)],
    [('pb!', 1.0), ('pc!', 0.375)],
    [('pa!ox!', 1.0), ('pa!oy!', 0.25)],
  ]  # room for three: a! and c! are closest


def test_only_the_action_is_on_the_mask():
  members = walk('a!', 'xx!', (0.5, 1.0)), walk('a!', 'y!', (0.5, 0.0))
  (made,) = pairs.siblings([test_pairs.group(*members)])
  better, worse = made.episodes
  assert better.mask.tolist() == [False] * 4 + [True] * 3
  assert worse.mask.tolist() == [False] * 4 + [True] * 2
  assert better.logp.tolist() == [0] * 4 + [-1] * 3
  assert better.rewards.tolist() == [0] * 6 + [1]
  assert (
    better.extras['ranked'].tolist() == [False, True, True, False] + [True] * 3
  )


def test_each_pair_is_a_task_of_its_own():
  members = [
    walk('a!', x + '!', (1.0, v)) for x, v in zip('uvwx', (0, 0, 1, 1))
  ]
  groups = [
    test_pairs.group(
      *(
        one._replace(task=one.task._replace(id=name))
        for one in [*members, *members]
      )
    )
    for name in ('s', 't')
  ]
  made = pairs.siblings(groups)
  assert len(made) == 8  # two by two, of two tasks
  assert len({group.task.id for group in made}) == 8
  for group in made:
    assert all(one.task is group.task for one in group.episodes)
    assert [episode.total_reward(one) for one in group.episodes] == [1, 0]


def test_of_more_than_fit_the_widest_stay_in_their_order():
  values = (0.0, 0.5, 1.0, 0.75)
  members = [walk(x + '!', 'z!', (v, np.nan)) for x, v in zip('abcd', values)]
  made = pairs.siblings([test_pairs.group(*members)])
  assert told(made) == [
    [('pc!', 1.0), ('pa!', 0.0)],
    [('pd!', 0.75), ('pa!', 0.0)],
  ]


def test_episodes_of_no_search():
  with pytest.raises(ValueError, match="have no 'action_value'; set config"):
    pairs.siblings([test_pairs.group(test_pairs.one('t', 1))])
