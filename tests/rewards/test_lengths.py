"""Rewards for being short."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arl import episode, levels
from arl.kernels import shaping
from arl.rewards import lengths

REWARD = st.floats(-1, 1)
LENGTH = st.integers(0, 40_000)


@given(REWARD, LENGTH, LENGTH)
def test_longer_is_never_better(reward, length, more):
  for each in (lengths.linear, lengths.sigmoid):
    assert each(reward, length + more, 1000) <= each(reward, length, 1000)
    assert np.isfinite(each(reward, length, 1000))


@given(st.floats(-1, 0), LENGTH)
def test_long_failures_do_not_pay(reward, length):
  assert lengths.sigmoid(reward, length, 1000) == reward


@given(LENGTH)
def test_overlong_is_bounded(length):
  assert -1 <= lengths.overlong(length, longest=20480, buffer=4096) <= 0


@pytest.mark.parametrize('length', [1, 4, 5, 6, 7, 8, 9, 12])
def test_overlong_is_the_kernel_of_that_name(length):
  mask = jnp.arange(16)[None] < length
  seq = levels.Level(jnp.zeros((1, 16), jnp.int32), 1)
  column = shaping.overlong(jnp.zeros((1, 16)), mask, seq, longest=8, buffer=4)
  ours = lengths.overlong(length, longest=8, buffer=4)
  np.testing.assert_allclose(np.asarray(column).sum(), ours, atol=1e-6)


@given(st.lists(st.tuples(LENGTH, st.booleans()), max_size=8))
def test_in_a_group_the_wrong_earn_nothing(group):
  length = [each for each, _ in group]
  correct = np.array([right for _, right in group], bool)
  rewards = lengths.in_group(length, correct)
  assert np.all(np.abs(rewards) <= 0.5)
  assert np.all(rewards[~correct] <= 0)


def test_in_a_group_of_one_length():
  np.testing.assert_array_equal(lengths.in_group([5, 5], [True, False]), 0)
  assert lengths.in_group([], []).shape == (0,)


def test_cut_off_episodes_earn_nothing():
  finish = ('finished', 'max_tokens', 'finished', 'finished')
  rewards = [lengths.unless_cut(r, s) for r, s in zip((1, 1, 0, 1), finish)]
  assert rewards == [1, 0, 0, 1]
  assert lengths.unless_cut(1, episode.MAX_TURNS) == 0


def test_steps_cost():
  assert lengths.step_cost(1, 10) == pytest.approx(0.9)
