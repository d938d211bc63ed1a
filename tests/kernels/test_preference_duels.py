"""Other readings of Pair-GRPO: duels within a group, a step of the policy."""

import jax
import jax.numpy as jnp
import numpy as np
import worked

from arl.kernels import preference

MASK, SEQ = worked.mask(), worked.sequences()


def test_wins_are_duels_won_less_duels_lost():
  cases = (
    ([0.9, 0.4, 0.4, 0.1], [1, 0, 0, -1]),
    ([3.0, 2.0, 1.0, 0.0], [1, 1 / 3, -1 / 3, -1]),
    ([0.7, 0.7, 0.7, 0.7], [0, 0, 0, 0]),
  )
  for rewards, want in cases:
    rewards = jnp.where(MASK, worked.at_end(rewards), jnp.nan)
    got = preference.wins(rewards, MASK, SEQ, worked.one_group())
    np.testing.assert_allclose(got, worked.per_sequence(want), rtol=1e-6)
  pairs, rewards = worked.level([0, 0, 1, 1], 3), worked.at_end([1, 0, 0, 1])
  of_pairs = preference.wins(rewards, MASK, SEQ, pairs)
  np.testing.assert_array_equal(of_pairs, worked.per_sequence([1, -1, -1, 1]))


def test_rewards_that_differ_by_rounding_tie():
  rewards = worked.column([[0.1, 0.2, 0.0], [0.3, 0.0], [0.3], [0.0, 0.0, 0.3]])
  got = preference.wins(rewards, MASK, SEQ, worked.one_group())
  assert not np.any(got)


def test_a_step_is_the_policy_gradient_where_it_begins():
  slope_of = jax.grad(preference.stepped)
  for advantage in (-1.0, 0.5, 1.0):
    np.testing.assert_allclose(slope_of(0.0, advantage, delta=0.2), advantage)
    at_rest = slope_of(0.2 * advantage, advantage, delta=0.2)
    np.testing.assert_allclose(at_rest, 0, atol=1e-7)
  assert slope_of(0.3, 0.0, delta=0.2) == 0
