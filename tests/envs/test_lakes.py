"""Gymnasium's maps: their exact values, and what the grids show."""

import numpy as np
import pytest

from arl.envs import base, gridworld


@pytest.mark.parametrize(
  'name, slip, value',
  [
    ('4x4', 0.0, 1.0),
    ('4x4', 2 / 3, 14 / 17),
    ('8x8', 0.0, 1.0),
    ('8x8', 2 / 3, 1.0),  # every hole can be kept at one's side
  ],
)
def test_chance_to_reach_the_goal(name, slip, value):
  task = gridworld.lake(name, slip)
  assert gridworld.optimal_values(task, 1.0)[0] == pytest.approx(value)


@pytest.mark.parametrize('name, moves', [('4x4', 6), ('8x8', 14)])
def test_the_oracle_takes_the_shortest_path(name, moves):
  env, task = gridworld.make(), gridworld.lake(name, 0.0)
  exchanges = base.play(env, task, env.oracle, 100)
  assert len(exchanges) == moves
  assert exchanges[-1].turn.reward == 1.0


def test_discounted_values_of_the_small_lake():
  # The largest value over policies is that of the best stationary one: the
  # value of the oracle at the same discount, solved and not iterated.
  task = gridworld.lake('4x4')
  values = gridworld.optimal_values(task, 0.99)
  exact = gridworld.policy_values(task, gridworld.oracle_policy(task), 0.99)
  np.testing.assert_allclose(values, exact, atol=1e-9)
  assert values[0] == pytest.approx(0.542026, abs=1e-6)


def test_no_other_lakes():
  with pytest.raises(ValueError, match="no map '5x5'; maps: 4x4, 8x8"):
    gridworld.lake('5x5')


def test_an_anchor_is_the_cell_whatever_led_there():
  env, task = gridworld.make(), gridworld.lake('4x4', 0.0)
  at = {}
  for actions in (['down', 'up'], ['right', 'left'], ['hm'], ['right'], []):
    state = env.reset(task)
    for action in actions:
      state, _ = env.step(state, action)
    at.setdefault(state.cell, set()).add(env.anchor(state))
  assert {len(anchors) for anchors in at.values()} == {1}
  assert len(set.union(*at.values())) == len(at) == 2
