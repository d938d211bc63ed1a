"""What episodes show of how a policy acts, by hand and against slow twins."""

import math

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from arl import episode
from arl.evaluate import behavior


def exchange(action, answer='', valid=None):
  return episode.Exchange(action, episode.Turn(answer, valid=valid))


def played(
  task, reward=0.0, said=('a',), *, status='finished', tokens=4, version=None
):
  """An episode of so many sampled tokens after one of a prompt."""
  n = tokens + 1
  mask = np.arange(n) > 0
  exchanges = [x if isinstance(x, tuple) else exchange(x) for x in said]
  rewards = np.zeros(n, np.float32)
  rewards[-1] = reward
  turn = np.minimum(np.maximum(np.arange(n) - 1, 0), len(exchanges) - 1)
  extras = {} if version is None else {'rollout_version': np.array(version)}
  return episode.Episode(
    task=episode.Task(task, 'go', {}),
    sample=0,
    tokens=np.arange(n, dtype=np.int32),
    mask=mask,
    logp=np.zeros(n, np.float32),
    rewards=rewards,
    turn=turn.astype(np.int32),
    status=status,
    exchanges=tuple(exchanges),
    extras=extras,
  )


def test_outcomes_of_groups_by_hand():
  rewards = {'a': [1, 1], 'b': [0, 0], 'c': [1, 0], 'd': [0.2, 0.6], 'e': [1]}
  episodes = [played(t, r) for t, each in rewards.items() for r in each]
  got = behavior.measure(episodes)
  assert got['groups/solved'] == 0.25
  assert got['groups/unsolved'] == 0.5
  assert got['groups/mixed'] == 0.25
  assert got['groups/varied'] == 0.5
  expected = (math.sqrt(0.5) + np.std([0.2, 0.6], ddof=1)) / 4
  assert got['groups/std'] == pytest.approx(expected, rel=1e-6)


def test_lengths_and_what_is_cut_off():
  episodes = [played('a', tokens=n, said=['x'] * 2) for n in range(2, 22)]
  episodes += [played('b', status='max_turns', tokens=2)] * 5
  got = behavior.measure(episodes)
  sizes = [*range(2, 22), *[2] * 5]
  assert got['length/tokens_p95'] == np.percentile(sizes, 95)
  assert got['length/turns_p95'] == 2
  assert got['length/truncated'] == 0.2


def test_what_failed_or_was_dropped_is_left_out():
  broken = [played('a', status='reward_error')] * 3
  assert behavior.measure(broken) == {}
  assert behavior.measure([*broken, played('a')])['length/truncated'] == 0


def test_valid_is_what_the_environment_says_or_that_it_saw_no_error():
  calls = [
    exchange('get(a)', 'error: no key', valid=True),
    exchange('gte(a)', '7', valid=False),
    exchange('x', 'Error: what?'),
    exchange('y', 'fine'),
  ]
  assert [behavior.invalid(x) for x in calls] == [False, True, True, False]
  got = behavior.measure([played('a', said=calls)])
  assert got['calls/invalid'] == 0.5


def test_a_loop_is_the_same_with_the_same_answer_three_times():
  moves = [exchange('right', str(i)) for i in range(5)]
  walls = [exchange('right', 'a wall')] * 3
  twice = [exchange('get(a)', '7')] * 2
  episodes = [played('a', said=x) for x in (moves, walls, twice)]
  got = behavior.measure(episodes)
  assert got['loops/share'] == pytest.approx(1 / 3)
  assert got['loops/distinct'] == pytest.approx((1 + 1 / 3 + 1 / 2) / 3)


def test_what_a_limit_cut_off_is_no_action():
  said = [exchange('get(a)', '7', valid=True), exchange('ge', '', valid=None)]
  assert 'calls/invalid' not in behavior.measure(
    [played('a', said=said[1:], status='max_tokens')]
  )
  cut = played('a', said=said, status='max_tokens')
  assert behavior.measure([cut])['calls/invalid'] == 0


def first_actions(table):
  return behavior.measure(
    [played(task, said=[x]) for task, each in table.items() for x in each]
  )


def test_a_first_action_tells_its_task_or_nothing():
  tasks = [str(i) for i in range(16)]
  own = first_actions({t: [f'get({t})'] * 8 for t in tasks})
  same = first_actions({t: ['hello'] * 8 for t in tasks})
  rng = np.random.default_rng(0)
  guesses = first_actions(
    {t: [str(rng.integers(1000)) for _ in range(8)] for t in tasks}
  )
  few = first_actions({t: list(rng.choice(list('LRUD'), 8)) for t in tasks})
  assert own['actions/entropy'] == pytest.approx(math.log(16))
  assert own['actions/information'] > 1
  assert same['actions/information'] == same['actions/entropy'] == 0
  assert guesses['actions/entropy'] > 4
  assert guesses['actions/information'] < 0.1 > few['actions/information']


def test_one_task_or_one_rollout_a_task_tells_nothing():
  assert 'actions/information' not in first_actions({'a': ['x', 'y']})
  assert 'actions/information' not in first_actions({'a': ['x'], 'b': ['y']})


@hypothesis.given(
  st.lists(
    st.lists(st.sampled_from('abc'), min_size=2, max_size=4),
    min_size=2,
    max_size=6,
  )
)
def test_information_is_bounded_by_entropy_and_blind_to_names(groups):
  named = first_actions({str(i): each for i, each in enumerate(groups)})
  swapped = {'a': 'b', 'b': 'c', 'c': 'a'}
  other = first_actions(
    {str(i): [swapped[x] for x in each] for i, each in enumerate(groups)}
  )
  assert 0 <= named['actions/information'] <= named['actions/entropy'] + 1e-9
  for name in ('actions/information', 'actions/entropy'):
    assert named[name] == pytest.approx(other[name])


def test_tokens_that_nobody_sampled_are_counted():
  right = played('a', tokens=3, version=[-1, 0, 0, 0])
  wrong = played('a', tokens=3, version=[-1, 4, -1, -1])
  shown = played('a', tokens=3, version=[-1, -1, -1, -1])
  count = lambda *made: behavior.unsampled(list(made))
  assert count(right) == {'audit/unsampled': 0}
  assert count(right, wrong, shown) == {'audit/unsampled': 2}
  assert count(shown, played('a')) == {}
  answer = np.array([False, False, True, True])
  told = wrong._replace(extras={**wrong.extras, 'answer': answer})
  assert count(told) == {'audit/unsampled': 0}
