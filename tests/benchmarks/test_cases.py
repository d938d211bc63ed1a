"""The arrays of the benchmark, and how outputs are compared."""

import numpy as np
import pytest

from benchmarks import cases

ROWS, WIDTH = 16, 64


@pytest.fixture(scope='module')
def arrays():
  return cases.arrays(ROWS, WIDTH)


def test_a_sequence_has_an_observation_inside(arrays):
  for row in arrays['mask'] > 0:
    (chosen,) = np.nonzero(row)
    inside = row[chosen[0] : chosen[-1] + 1]
    assert inside.any() and not inside.all()


def test_rewards_stand_on_the_last_token(arrays):
  for row, rewards, score in zip(
    arrays['mask'], arrays['rewards'], arrays['score']
  ):
    last = np.nonzero(row)[0][-1]
    assert rewards[last] == score
    assert not np.delete(rewards, last).any()


def test_some_tokens_are_clipped_but_not_most(arrays):
  moved = np.exp(arrays['logp'] - arrays['old_logp'])[arrays['mask'] > 0]
  assert 0.01 < np.mean(abs(moved - 1) > cases.CLIP) < 0.2


def test_advantages_are_normalized_in_groups(arrays):
  groups = arrays['advantage'].reshape(-1, cases.GROUP)
  np.testing.assert_allclose(groups.mean(axis=1), 0, atol=1e-6)
  np.testing.assert_allclose(groups.std(axis=1, ddof=1), 1, atol=1e-4)


def test_the_difference_is_relative_to_the_size_of_an_array():
  ours = {'loss': np.float32(0.25), 'gradient': np.float32([[4, 0], [0, 1]])}
  same = dict(ours)
  assert cases.difference(ours, same) == 0
  moved = {**same, 'gradient': np.float32([[4, 0], [0, 2]])}
  assert cases.difference(ours, moved) == 0.25
  moved = {**same, 'loss': np.float32(0.5)}
  assert cases.difference(ours, moved) == 0.25


def test_a_nan_is_no_agreement():
  assert cases.difference({'x': np.float32(np.nan)}, {'x': np.float32(1)}) == (
    np.inf
  )


@pytest.mark.parametrize(
  'theirs', [{'y': np.zeros(2)}, {'x': np.zeros(3)}, {'x': np.zeros((2, 1))}]
)
def test_outputs_of_another_kind_are_refused(theirs):
  with pytest.raises(ValueError):
    cases.difference({'x': np.zeros(2)}, theirs)
