"""Which of a task's own episodes are imitated."""

import numpy as np

from arl import episode
from arl.prompts import rejection


def said(*actions, reward=1.0, logp=-0.1, status=episode.FINISHED, row=0):
  """An episode whose actions have as many tokens as letters."""
  text = [f'p{action}' for action in actions]
  turn = np.repeat(np.arange(len(text)), [len(t) for t in text])
  mask = np.array([i > 0 for t in text for i in range(len(t))], bool)
  rewards = np.zeros(len(mask), np.float32)
  rewards[-1] = reward
  return episode.Episode(
    task=episode.Task('a', 'p', {}),
    sample=0,
    tokens=np.ones(len(mask), np.int32),
    mask=mask,
    logp=np.where(mask, np.float32(logp), 0),
    rewards=rewards,
    turn=turn.astype(np.int32),
    status=status,
    exchanges=tuple(episode.Exchange(a, episode.Turn('o')) for a in actions),
    row=row,
  )


def group(*episodes):
  return episode.Group(episodes[0].task, list(episodes))


def actions(groups):
  return [[e.exchanges[-1].action for e in g.episodes] for g in groups]


def test_right_ones_that_differ():
  keys = ['a', 'b', 'c', 'a']
  ok = [True, False, True, True]
  np.testing.assert_array_equal(
    rejection.select(ok, keys, most=4), [1, 0, 1, 0]
  )
  np.testing.assert_array_equal(
    rejection.select(ok, keys, most=1), [1, 0, 0, 0]
  )
  assert not rejection.select([False] * 4, keys).any()


def test_what_was_done_is_compared_without_its_spelling():
  members = group(
    said('f(1)', '=a b'),
    said('x', reward=0.0),
    said('f(1)', '=A  b '),
    said('=a b'),
    said('c', status=episode.ENVIRONMENT_ERROR),
  )
  assert actions(rejection.verified([members])) == [['=a b', '=a b']]
  assert actions(rejection.verified_once([members])) == [['=a b']]


def test_the_shortest_first():
  members = group(said('dddd'), said('bb'), said('ccc'), said('a', reward=0))
  assert actions(rejection.shortest([members], most=2)) == [['bb', 'ccc']]


def test_tasks_that_nothing_solved_are_dropped():
  assert rejection.verified([group(said('a', reward=0.5))]) == []


def test_trajectories_of_several_rows_stay_whole():
  rows = said('a', reward=0.5), said('b', reward=0.5, row=1)
  (made,) = rejection.verified([group(*rows, said('c', reward=0))])
  assert list(made.episodes) == list(rows)


def test_turns_that_are_neither_sure_nor_unlikely():
  one = said('aa', 'bb', 'cc')
  logp = np.where(one.mask, np.array([-0.02, -0.3, -1.0])[one.turn], 0)
  one = one._replace(logp=logp.astype(np.float32))
  probabilities = np.exp([-0.02, -0.3, -1.0])
  np.testing.assert_allclose(
    probabilities, [0.980199, 0.740818, 0.367879], atol=1e-6
  )
  sure, failed = said('d', logp=-0.01), said('e', reward=0, logp=-0.3)
  (made,) = rejection.uncertain([group(one, sure, failed)])
  (kept,) = made.episodes
  assert set(kept.turn[kept.mask]) == {1}
  assert not kept.logp[~kept.mask].any()
  assert rejection.uncertain([group(sure)]) == []
