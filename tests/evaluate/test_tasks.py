import numpy as np
import pytest

from arl import episode
from arl.evaluate import summary, tasks


def played(task, sample, reward, status='finished', error=''):
  return episode.Episode(
    task=episode.Task(task, 'go', {}),
    sample=sample,
    tokens=np.arange(3, dtype=np.int32),
    mask=np.array([False, True, True]),
    logp=np.zeros(3, np.float32),
    rewards=np.array([0, 0, reward], np.float32),
    turn=np.zeros(3, np.int32),
    status=status,
    error=error,
  )


def several(task, rewards):
  return [played(task, i, reward) for i, reward in enumerate(rewards)]


def test_one_episode_a_task_has_the_interval_of_a_rate():
  episodes = [played(str(i), 0, i % 2) for i in range(8)]
  got = tasks.measure(episodes)
  assert got['interval'] == 'Wilson'
  assert got['pass_at'] == got['maj_at'] == got['pass_all'] == {}
  assert got['reward_low'] < got['reward'] < got['reward_high']
  assert got['tokens_low'] == got['tokens'] == got['tokens_high'] == 2
  expected = summary.success(episodes)
  assert {name: got[name] for name in expected} == expected


def test_several_episodes_a_task_give_pass_at_k():
  episodes = [
    *several('a', [1, 0, 0]),
    *several('b', [1, 1, 1]),
    *several('c', [0, 0, 0]),
    *several('d', [1, 1, 0]),
  ]
  got = tasks.measure(episodes)
  assert got['success'] == pytest.approx(0.5)
  # Of a's pairs 2 of 3 hold its one success; all pairs of b and d hold one.
  means = {k: found['success'] for k, found in got['pass_at'].items()}
  assert means == pytest.approx({1: 0.5, 2: 2 / 3, 3: 0.75})
  # Of d's pairs 1 of 3 is without its failure; all of b's are.
  means = {k: found['success'] for k, found in got['pass_all'].items()}
  assert means == pytest.approx({1: 0.5, 2: 1 / 3, 3: 0.25})
  assert got['interval'] == 'bootstrap over tasks'
  # Variance of 1/3, 1, 0, 2/3 by n - 1: 5/27; its root over 2.
  assert got['success_error'] == pytest.approx((5 / 27) ** 0.5 / 2)
  assert got['maj_at'] == {}


def test_samples_that_agree_do_not_narrow_the_interval():
  once = [several(str(i), [i % 2] * 2) for i in range(16)]
  often = [several(str(i), [i % 2] * 8) for i in range(16)]
  narrow, wide = (
    tasks.measure([e for group in groups for e in group])
    for groups in (often, once)
  )
  for end in ('success_low', 'success_high'):
    assert narrow[end] == wide[end]
  assert wide['success_low'] < 0.4 and wide['success_high'] > 0.6


@pytest.mark.parametrize('reward', [0, 1])
def test_tasks_that_all_agree_still_leave_doubt(reward):
  episodes = [e for i in range(10) for e in several(str(i), [reward] * 3)]
  got = tasks.measure(episodes)
  assert got['success'] == reward
  # Wilson at 0 or 10 of 10: z^2 / (10 + z^2) = 0.2775 from the end.
  other_end = got['success_high' if reward == 0 else 'success_low']
  assert abs(other_end - reward) == pytest.approx(0.27753, abs=1e-5)


def test_k_stops_at_the_fewest_graded_samples():
  episodes = several('a', [1, 0, 1, 0]) + several('b', [1] * 4)
  episodes[0] = episodes[0]._replace(status='reward_error')
  assert sorted(tasks.measure(episodes)['pass_at']) == [1, 2, 3]


def test_a_task_without_a_grade_is_left_out():
  failed = [played('b', i, 0, 'environment_error') for i in range(2)]
  got = tasks.measure(several('a', [1, 0]) + failed)
  assert got['success'] == 0.5
  assert got['failed'] == 2
  assert got['pass_at'] == {}


def test_nothing_graded_says_why():
  failed = [played('a', 0, 0, 'reward_error', 'no judge')]
  with pytest.raises(ValueError, match='reward_error: no judge'):
    tasks.measure(failed)


def saying(task, sample, text, reward, status='finished'):
  exchange = episode.Exchange(text, episode.Turn('', reward, True))
  one = played(task, sample, reward, status)
  return one._replace(exchanges=(exchange,))


def test_a_vote_is_among_answers_that_mean_the_same():
  said = [(' Seven.', 1), ('SEVEN', 1), ('8', 0), ('8 ', 0), ('9', 0)]
  episodes = [saying('a', i, text, r) for i, (text, r) in enumerate(said)]
  cut = episodes[2]._replace(status='max_tokens')
  got = tasks.measure(episodes, tasks.answer)['maj_at']
  assert sorted(got) == [1, 3, 5]
  assert got[1]['success'] == pytest.approx(0.4)
  assert got[5]['success'] == pytest.approx(0.5)  # two against two
  got = tasks.measure([*episodes[:2], cut, *episodes[3:]], tasks.answer)
  assert got['maj_at'][5]['success'] == 1  # what was cut off has no vote


def test_answers_are_canonical():
  read = lambda text, status='finished': tasks.answer(
    saying('a', 0, text, 0, status)
  )
  assert read(' The  Answer.') == read('the answer') == 'the answer'
  assert read('\uff17') == '7'
  assert read(' . ') is None and read('7', 'max_turns') is None
