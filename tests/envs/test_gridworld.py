"""The grid: its rules, and its values against hand-computed numbers."""

import numpy as np
import pytest

from arl import episode
from arl.envs import base, gridworld

# A . .    The path right, right, down, down, or down, down, right, right; the
# . H .    hole in the middle.
# . . G
ROWS = ('A..', '.H.', '..G')
# The 4 x 4 map that Gymnasium's FrozenLake-v1 comes with.
LAKE = ('A...', '.H.H', '...H', 'H..G')
UNIFORM = np.full((9, 4), 0.25)


def walk(task, actions, stream=0):
  env = gridworld.make()
  state = env.reset(task)._replace(stream=stream)
  for action in actions:
    state, turn = env.step(state, action)
  return state, turn


def test_an_episode():
  task = gridworld.from_rows(ROWS)
  assert task.prompt == 'A..\n.H.\n..G'
  state, turn = walk(task, ['down', 'left', 'down'])
  assert (state.cell, turn) == (6, episode.Turn('...\n.H.\nA.G'))
  state, turn = walk(task, ['down', 'down', 'right', 'right'])
  assert (state.cell, turn.reward, turn.done) == (8, 1.0, True)
  state, turn = walk(task, ['right', 'down'])
  assert (state.cell, turn.reward, turn.done) == (4, 0.0, True)


@pytest.mark.parametrize('action', gridworld.ACTIONS)
def test_walls_stop(action):
  task = gridworld.from_rows(('A', 'G'))
  state, turn = walk(task, [action])
  assert state.cell == (1 if action == 'down' else 0)
  assert turn.done == (action == 'down')


def test_a_bad_action_shows_the_grid_again():
  _, turn = walk(gridworld.from_rows(ROWS), ['Down'])
  assert turn.text == 'error: say up, down, left, right\nA..\n.H.\n..G'


@pytest.mark.parametrize(
  'rows', [('A.', 'G'), ('..', '.G'), ('A.', 'GG'), ('A.', 'xG'), ()]
)
def test_bad_maps(rows):
  with pytest.raises(ValueError, match='must be a rectangle'):
    gridworld.from_rows(rows)


def test_optimal_values_by_hand():
  # A goal n moves away is worth 0.9 ** (n - 1).
  expected = [0.729, 0.81, 0.9, 0.81, 0.0, 1.0, 0.9, 1.0, 0.0]
  values = gridworld.optimal_values(gridworld.from_rows(ROWS), 0.9)
  np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12)


def test_policy_values_by_hand():
  # One row: start, ice, goal. Left or right by a coin's toss, gamma 1/2:
  # v0 = (v0 + v1) / 4 and v1 = v0 / 4 + 1 / 2, so v0 = 2 / 11, v1 = 6 / 11.
  task = gridworld.from_rows(('A.G',))
  policy = np.tile([0.0, 0.0, 0.5, 0.5], (3, 1))
  values = gridworld.policy_values(task, policy, 0.5)
  np.testing.assert_allclose(values, [2 / 11, 6 / 11, 0.0], atol=1e-12)


def test_slip_by_hand():
  # Down from the middle of the top row, the hole below, with slip 1/2: down
  # 1/2, left 1/4, right 1/4.
  task = gridworld.from_rows(ROWS, slip=0.5)
  chance, rewards = gridworld.transitions(task)
  np.testing.assert_array_equal(
    chance[1, 1], [0.25, 0, 0.25, 0, 0.5, 0, 0, 0, 0]
  )
  # Down from above the goal: down 1/2, left into the hole, right is the wall.
  np.testing.assert_array_equal(
    chance[5, 1], [0, 0, 0, 0, 0.25, 0.25, 0, 0, 0.5]
  )
  np.testing.assert_array_equal(rewards[5], [0.0, 0.5, 0.25, 0.25])
  assert rewards[8].sum() == 0.0


def test_the_slippery_lake_is_worth_14_in_17():
  task = gridworld.from_rows(LAKE, slip=2 / 3)
  values = gridworld.optimal_values(task, 1.0)
  np.testing.assert_allclose(values[0], 14 / 17, atol=1e-10)


@pytest.mark.parametrize('gamma', [0.5, 0.9, 1.0])
@pytest.mark.parametrize('slip', [0.0, 0.2, 2 / 3, 1.0])
@pytest.mark.parametrize('rows', [ROWS, LAKE])
def test_bellman_residuals(rows, slip, gamma):
  task = gridworld.from_rows(rows, slip)
  chance, rewards = gridworld.transitions(task)
  np.testing.assert_allclose(chance.sum(axis=2), 1.0, atol=1e-15)
  best = gridworld.optimal_values(task, gamma)
  again = gridworld.action_values(task, best, gamma).max(axis=1)
  assert np.max(np.abs(best - again)) < 1e-12
  policy = np.random.default_rng(0).dirichlet(np.ones(4), len(best))
  values = gridworld.policy_values(task, policy, gamma)
  actions = gridworld.action_values(task, values, gamma)
  assert np.max(np.abs(values - (policy * actions).sum(axis=1))) < 1e-12
  assert np.all(values <= best + 1e-12)


def test_policy_values_at_gamma_one_where_the_goal_is_never_reached():
  task = gridworld.from_rows(ROWS)
  still = np.tile([1.0, 0.0, 0.0, 0.0], (9, 1))
  assert gridworld.policy_values(task, still, 1.0).tolist() == [0.0] * 9


def test_policy_values_against_a_sum_over_time():
  task = gridworld.from_rows(LAKE, slip=0.3)
  chance, rewards = gridworld.transitions(task)
  policy = np.random.default_rng(1).dirichlet(np.ones(4), 16)
  slow, at = np.zeros(16), np.eye(16)
  for power in range(600):
    slow += 0.95**power * at @ (policy * rewards).sum(axis=1)
    at = at @ np.einsum('sa,sat->st', policy, chance)
  values = gridworld.policy_values(task, policy, 0.95)
  np.testing.assert_allclose(values, slow, atol=1e-12)


@pytest.mark.parametrize('rows', [('AHG', '...', '.H.'), LAKE])
def test_the_oracle_earns_its_exact_value(rows):
  env = gridworld.make(slip=0.4)
  task = gridworld.from_rows(rows, slip=0.4)
  policy = gridworld.oracle_policy(task)
  exact = gridworld.policy_values(task, policy, 1.0)[0]
  rewards = [
    base.play(env, task._replace(id=f'{i}'), env.oracle, 300)[-1].turn.reward
    for i in range(1500)
  ]
  error = np.sqrt(exact * (1 - exact) / len(rewards))
  assert 0.1 < exact < 0.9
  assert abs(np.mean(rewards) - exact) < 4 * error


def test_streams_slip_differently_and_repeatably():
  task = gridworld.from_rows(LAKE, slip=2 / 3)
  env = gridworld.make()
  ends = []
  for stream in range(400):
    state = env.reset(task)._replace(stream=stream)
    first, _ = env.step(state, 'right')
    second, _ = env.step(state, 'right')
    assert first.cell == second.cell
    ends.append(first.cell)
  # Right, or aside: down, or up into the wall.
  shares = np.bincount(ends, minlength=5)[[0, 1, 4]] / 400
  np.testing.assert_allclose(shares, 1 / 3, atol=0.1)


def test_values_refuse_bad_arguments():
  task = gridworld.from_rows(ROWS)
  with pytest.raises(ValueError, match='gamma is 0'):
    gridworld.optimal_values(task, 0.0)
  with pytest.raises(ValueError, match='gamma is 1.1'):
    gridworld.policy_values(task, UNIFORM, 1.1)
  with pytest.raises(ValueError, match=r'shape \(4,\)'):
    gridworld.policy_values(task, UNIFORM[0], 0.9)
  with pytest.raises(ValueError, match='a distribution'):
    gridworld.policy_values(task, UNIFORM * 2, 0.9)


def test_a_value_handed_out_is_the_callers_own():
  task = gridworld.from_rows(ROWS)
  gridworld.optimal_values(task, 0.9)[:] = 7.0
  assert gridworld.optimal_values(task, 0.9)[8] == 0.0


@pytest.mark.parametrize('size, holes', [(3, 0), (3, 2), (3, 6), (4, 5)])
def test_maps(size, holes):
  env = gridworld.make(size=size, holes=holes)
  seen = {}
  for split in base.SPLITS:
    tasks = [env.task(split, index) for index in range(200)]
    seen[split] = {task.data['map'] for task in tasks}
    for task in tasks:
      assert task.data['map'].count('H') == holes
      values = gridworld.optimal_values(task, 0.5)
      assert 0.0 < values[env.reset(task).cell] <= 0.5
  assert not seen[base.TRAIN] & seen[base.HELD_OUT]


def test_the_demonstrator_succeeds_half_of_the_time():
  env = gridworld.make()
  rng = np.random.default_rng(0)
  rewards = [
    base.play(env, env.task(base.TRAIN, i), lambda s: env.noisy(s, rng), 6)[
      -1
    ].turn.reward
    for i in range(1500)
  ]
  assert 0.45 < np.mean(rewards) < 0.55
