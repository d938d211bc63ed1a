import collections
import itertools

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from arl import episode
from arl.evaluate import estimators

TRIPLES = [
  (n, c, k) for n in range(1, 9) for c in range(n + 1) for k in range(1, n + 1)
]


def by_enumeration(holds, n, c, k):
  samples = [True] * c + [False] * (n - c)
  draws = list(itertools.combinations(samples, k))
  return sum(holds(draw) for draw in draws) / len(draws)


@pytest.mark.parametrize(
  'estimate, holds',
  [(estimators.pass_at_k, any), (estimators.pass_all_k, all)],
)
def test_they_are_shares_of_subsets(estimate, holds):
  for n, c, k in TRIPLES:
    assert estimate(n, c, k) == by_enumeration(holds, n, c, k), (n, c, k)


def test_without_return():
  # With return it would be 1 - 0.6 ** 3 = 0.784.
  assert estimators.pass_at_k(5, 2, 3) == 0.9


@hypothesis.given(n=st.integers(1, 2000), data=st.data())
def test_pass_at_k_at_its_ends_and_between(n, data):
  c = data.draw(st.integers(0, n))
  k = data.draw(st.integers(1, n))
  assert estimators.pass_at_k(n, c, 1) == c / n
  assert estimators.pass_at_k(n, c, n) == (1 if c else 0)
  more = estimators.pass_at_k(n, c, min(k + 1, n))
  assert 0 <= estimators.pass_at_k(n, c, k) <= more <= 1


@pytest.mark.parametrize(
  'n, c, k, message',
  [
    (5, 0, 7, 'k=7 with n=5'),
    (0, 0, 1, 'k=1 with n=0'),
    (5, 2, 0, 'k=0'),
    (5, 6, 1, 'c=6 correct of n=5'),
    (5, -1, 1, 'c=-1'),
  ],
)
def test_pass_at_k_refuses(n, c, k, message):
  for estimate in (estimators.pass_at_k, estimators.pass_all_k):
    with pytest.raises(ValueError, match=message):
      estimate(n, c, k)


def test_mean_is_over_problems():
  # Pooled as one problem of 10 samples it would be 0.53333.
  assert estimators.mean_pass_at_k([(5, 2), (5, 0)], 3) == 0.45
  assert estimators.mean_pass_at_k([(4, 4), (1, 0)], 1) == 0.5


def test_mean_refuses():
  with pytest.raises(ValueError, match='no problems'):
    estimators.mean_pass_at_k([], 1)
  with pytest.raises(ValueError, match='k=3 with n=2'):
    estimators.mean_pass_at_k([(5, 2), (2, 2)], 3)


def one(task, reward, status):
  rewards = np.array([0, reward], np.float32)
  return episode.Episode(
    task=episode.Task(task, 'say it', {}),
    sample=0,
    tokens=np.array([1, 2], np.int32),
    mask=np.array([False, True]),
    logp=np.array([0, -0.5], np.float32),
    rewards=rewards,
    turn=np.zeros(2, np.int32),
    status=status,
  )


def test_counts_keep_the_truncated_and_leave_out_the_failed():
  episodes = [
    one('b', 1, 'finished'),
    one('a', 0, 'finished'),
    one('b', 0, 'max_tokens'),
    one('b', 0, 'environment_error'),
    one('a', 0.6, 'max_turns'),
    one('c', 1, 'reward_error'),
  ]
  assert estimators.counts_by_task(episodes, 1.0) == [(2, 1), (2, 0), (0, 0)]
  assert estimators.counts_by_task(episodes, 0.5) == [(2, 1), (2, 1), (0, 0)]


# --- A vote -------------------------------------------------------------------


def vote(answers, right):
  """How often a draw's most frequent answer is right; a tie counts in part."""
  counts = collections.Counter(x for x in answers if x is not None)
  best = [x for x, n in counts.items() if n == max(counts.values())]
  shares = [np.mean([r for y, r in right if y == x]) for x in best]
  return float(np.mean(shares)) if best else 0.0


@hypothesis.given(
  said=st.lists(
    st.tuples(st.sampled_from(['a', 'b', 'c', None]), st.booleans()),
    min_size=1,
    max_size=7,
  ),
  data=st.data(),
)
def test_a_majority_is_a_share_of_subsets(said, data):
  k = data.draw(st.integers(1, len(said)))
  answers, right = zip(*said)
  draws = list(itertools.combinations(answers, k))
  expected = np.mean([vote(draw, said) for draw in draws])
  got = estimators.majority_at_k(answers, right, k)
  assert got == pytest.approx(expected, abs=1e-12)


def test_a_majority_of_three_by_hand():
  # Two votes or three of 120 draws: C(5, 2) 5 + C(5, 3) = 60; one vote against
  # two that differ: 5 * 3 * 2 = 30, a third of which win.
  answers, right = list('aaaaabbbcc'), [True] * 5 + [False] * 5
  got = estimators.majority_at_k(answers, right, 3)
  assert got == pytest.approx(70 / 120)
  assert got == pytest.approx(0.582, abs=2e-3)  # a simulated example has this


def test_what_cannot_be_read_never_wins():
  answers, right = ['a', None, None, None], [True, False, False, False]
  assert estimators.majority_at_k(answers, right, 4) == 1
  assert estimators.majority_at_k(answers, right, 1) == 0.25
  assert estimators.majority_at_k([None] * 3, [True] * 3, 2) == 0


def test_a_vote_of_one_is_the_success_and_many_samples_are_no_trouble():
  answers = [str(i % 7) for i in range(64)]
  right = [x == '0' for x in answers]
  got = {k: estimators.majority_at_k(answers, right, k) for k in (1, 9, 64)}
  assert got[1] == pytest.approx(10 / 64)
  assert 0 < got[9] < 1 and got[64] == 1  # 10 of 64, the others 9 each


@pytest.mark.parametrize(
  'answers, right, k, message',
  [
    (['a'], [], 1, 'one grade an answer'),
    (['a'], [True], 2, 'expected 1 <= k <= n'),
  ],
)
def test_a_vote_refuses(answers, right, k, message):
  with pytest.raises(ValueError, match=message):
    estimators.majority_at_k(answers, right, k)


def test_the_error_of_a_mean_is_of_how_problems_differ():
  rates = [0.0, 0.5, 1.0, 0.5]
  expected = np.std(rates, ddof=1) / 2
  assert estimators.clustered_error(rates) == pytest.approx(expected)
  assert estimators.clustered_error([0.3] * 5) == pytest.approx(0, abs=1e-12)
  with pytest.raises(ValueError, match='two at least'):
    estimators.clustered_error([0.5])
