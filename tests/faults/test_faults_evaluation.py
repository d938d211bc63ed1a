"""Known faults of what is said of a policy."""

import itertools
import math

import hypothesis
import hypothesis.strategies as st
import plain
import pytest

from arl import episode
from arl.evaluate import estimators, summary


def test_60_without_return_of_one_problem_and_as_a_mean_over_problems():
  assert math.isclose(estimators.pass_at_k(5, 2, 3), 0.9)
  counts = [(5, 2), (5, 0)]
  assert math.isclose(estimators.mean_pass_at_k(counts, 3), 0.45)


@pytest.mark.parametrize('c', [0, 2, 5])
def test_60_more_draws_than_samples_are_refused(c):
  with pytest.raises(ValueError, match='k=7 with n=5'):
    estimators.pass_at_k(5, c, 7)
  with pytest.raises(ValueError, match='k=7 with n=5'):
    estimators.mean_pass_at_k([(9, 1), (5, c)], 7)


@hypothesis.given(st.data())
def test_60_it_is_the_share_of_all_subsets(data):
  n = data.draw(st.integers(1, 8))
  c = data.draw(st.integers(0, n))
  solved = [i < c for i in range(n)]
  found = [estimators.pass_at_k(n, c, k) for k in range(1, n + 1)]
  for k, value in enumerate(found, start=1):
    drawn = list(itertools.combinations(solved, k))
    assert math.isclose(value, sum(map(any, drawn)) / len(drawn), abs_tol=1e-12)
  assert math.isclose(found[0], c / n) and found == sorted(found)
  assert found[-1] == float(c > 0)


ENDS = (episode.FINISHED, episode.MAX_TOKENS, episode.MAX_TURNS,
        episode.REWARD_ERROR, episode.ENVIRONMENT_ERROR)  # fmt: skip


@hypothesis.settings(deadline=None)
@hypothesis.given(
  st.lists(
    st.tuples(st.sampled_from('abc'), st.sampled_from(ENDS), st.booleans()),
    min_size=1,
    max_size=12,
  )
)
def test_60_what_was_cut_off_counts_and_what_failed_does_not(told):
  """n is graded rollouts: truncated ones are, those without a grade not."""
  played = [
    plain.made([1, 5], [0, 1], rewards=float(won), id=id)._replace(
      status=status
    )
    for id, status, won in told
  ]
  counts = estimators.counts_by_task(played, episode.SOLVED)
  order = list(dict.fromkeys(id for id, _, _ in told))
  for id, (n, c) in zip(order, counts, strict=True):
    mine = [won for i, status, won in told if i == id and status in ENDS[:3]]
    assert (n, c) == (len(mine), sum(mine))
  found = summary.success(played)
  assert found['graded'] == sum(n for n, _ in counts)
  assert found['truncated'] == sum(s in ENDS[1:3] for _, s, _ in told)
