"""Which episodes of a task are compared, and where a pair is cut."""

import numpy as np
import pytest

from arl import episode
from arl.prompts import pairs


def one(name, reward, text='pab', mask='011', turn='000', **more):
  """An episode whose tokens are letters; the reward is on its last one."""
  n = len(text)
  rewards = np.zeros(n, np.float32)
  rewards[-1:] = reward
  return episode.Episode(
    episode.Task(name, '', {}),
    more.pop('sample', 0),
    np.frombuffer(text.encode(), np.uint8).astype(np.int32),
    np.array([m == '1' for m in mask], bool),
    np.array([-1.0 if m == '1' else 0.0 for m in mask], np.float32),
    rewards,
    np.array([int(t) for t in turn], np.int32),
    more.pop('status', episode.FINISHED),
    **more,
  )


def group(*episodes):
  return episode.Group(episodes[0].task, list(episodes))


def rewards(groups):
  return [[episode.total_reward(e) for e in g.episodes] for g in groups]


def test_the_best_and_the_worst_in_this_order():
  made = pairs.best_against_worst(
    [
      group(one('a', 0.25), one('a', 1), one('a', 0), one('a', 0.5)),
      group(one('b', 1), one('b', 0)),
    ]
  )
  assert rewards(made) == [[1, 0], [1, 0]]
  assert [g.task.id for g in made] == ['a', 'b']


def test_ties_and_single_episodes_are_dropped():
  tied, alone = group(one('a', 1), one('a', 1)), group(one('b', 1))
  rounded = group(one('c', 0.3), one('c', 0.1 + 0.2))
  assert pairs.best_against_worst([tied, alone, rounded]) == []


def test_a_margin():
  groups = [group(one('a', 1), one('a', 0.6)), group(one('b', 1), one('b', 0))]
  made = pairs.best_against_worst(groups, margin=0.5)
  assert [g.task.id for g in made] == ['b']


def test_of_several_as_good_the_first_counts():
  members = [one('a', r, sample=i) for i, r in enumerate([0, 1, 0, 1])]
  (made,) = pairs.best_against_worst([group(*members)])
  assert [e.sample for e in made.episodes] == [1, 0]


def test_what_has_no_grade_or_no_answer_is_not_compared():
  failed = one('a', 0, status=episode.REWARD_ERROR)
  silent = one('a', -1, mask='000')
  assert pairs.best_against_worst([group(one('a', 1), failed, silent)]) == []


def test_judgements_averaged():
  # Means of three judgements of four answers.
  means = (8 / 3, 13 / 3, 1.0, 7 / 3)
  members = [one('a', r, sample=i) for i, r in enumerate(means)]
  (made,) = pairs.best_against_worst([group(*members)])
  assert [e.sample for e in made.episodes] == [1, 2]
  np.testing.assert_allclose(rewards([made]), [[13 / 3, 1]], rtol=1e-6)


def test_an_episode_of_several_rows_stays_whole():
  rows = [one('a', 0.5), one('a', 0.75, row=1)]
  (made,) = pairs.best_against_worst([group(one('a', 1), *rows)])
  assert rewards([made]) == [[0.5, 0.75, 1]]
  assert [e.row for e in made.episodes] == [0, 1, 0]


# By who wrote them.


def beside(name, shown, *sampled):
  """The groups of a task that `demonstrations.beside` makes."""
  mark = lambda e, x: e._replace(
    extras={'demonstrated': np.full(len(e.tokens), x)}
  )
  own = [
    mark(e._replace(task=e.task._replace(id=name)), False) for e in sampled
  ]
  id = name + episode.DEMONSTRATION
  apart = [mark(shown._replace(task=shown.task._replace(id=id)), True)]
  return [episode.Group(each[0].task, each) for each in (own, apart) if each]


def of_sources(*pairs_):
  """Groups in the order that a batch has them: demonstrations last."""
  return [group for part in zip(*pairs_) for group in part]


def test_the_demonstration_is_preferred_whatever_it_earned():
  groups = of_sources(
    beside('a', one('a', 0.5, 'pxy'), one('a', 1), one('a', 0)),
    beside('b', one('b', 1, 'pxy'), one('b', 1)),
  )
  made = pairs.data_against_policy(groups)
  assert [g.task.id for g in made] == ['a', 'b']
  for group in made:
    assert rewards([group]) == [[1, 0]]
    shown, own = group.episodes
    assert shown.extras['demonstrated'].all()
    assert not own.extras['demonstrated'].any()
    assert {e.task.id for e in group.episodes} == {group.task.id}
    assert len(episode.groups(group.episodes)) == 1


def test_what_is_alike_or_missing_makes_no_pair():
  failed = one('c', 0, status=episode.ENVIRONMENT_ERROR)
  silent = one('e', 0, mask='000')
  for name, shown, own in (
    ('a', one('a', 1, 'pab'), [one('a', 0, 'pab')]),
    ('b', one('b', 1, 'pxy'), []),
    ('c', one('c', 1, 'pxy'), [failed]),
    ('d', failed._replace(tokens=failed.tokens + 1), [one('d', 0)]),
    ('e', one('e', 1, 'pxy'), [silent]),
  ):
    assert pairs.data_against_policy(beside(name, shown, *own)) == []
  assert pairs.data_against_policy([]) == []
  second = beside('f', one('f', 1, 'pxy'), failed, one('f', 0.5, sample=1))
  (made,) = pairs.data_against_policy(second)
  assert [e.sample for e in made.episodes] == [0, 1]


def test_pairs_by_source_need_demonstrations():
  with pytest.raises(ValueError, match="to 'demonstrations.beside'"):
    pairs.data_against_policy([group(one('a', 1), one('a', 0))])


# Steps: p a! o b! o c!, of which the second turn differs.


def walk(reward, second, rest='oc!'):
  text = 'pa!o' + second + rest
  turns = '0000' + '1' * len(second)
  mask = '0110' + '1' * len(second)
  if rest:
    turns, mask = turns + '1' + '2' * (len(rest) - 1), mask + '0' + '11'
  extras = {'rollout_version': np.arange(len(text))}
  return one('a', reward, text, mask, turns, extras=extras)


def test_a_pair_is_cut_to_the_first_step_that_differs():
  (made,) = pairs.first_step([group(walk(0, 'x!', ''), walk(1, 'yz!'))])
  best, worst = made.episodes
  assert bytes(best.tokens.tolist()) == b'pa!oyz!'
  assert bytes(worst.tokens.tolist()) == b'pa!ox!'
  assert best.mask.tolist() == [False] * 4 + [True] * 3
  assert not best.logp[~best.mask].any()
  assert best.rewards.tolist() == [0] * 6 + [1]
  assert worst.rewards.tolist() == [0] * 6
  for each in made.episodes:
    n = len(each.tokens)
    columns = (each.mask, each.logp, each.rewards, each.turn)
    assert {len(x) for x in columns} == {n}
    assert each.extras['rollout_version'].tolist() == list(range(n))


def test_the_first_step_may_be_the_first():
  both = one('a', 1, 'pa!', '011', '000'), one('a', 0, 'pb!', '011', '000')
  (made,) = pairs.first_step([group(*both)])
  assert [e.mask.tolist() for e in made.episodes] == [[False, True, True]] * 2


def test_where_what_was_observed_differs_first_there_is_no_pair():
  other = walk(0, 'x!')
  tokens = other.tokens.copy()
  tokens[3] = ord('q')
  other = other._replace(tokens=tokens)
  assert pairs.first_step([group(walk(1, 'y!'), other)]) == []
