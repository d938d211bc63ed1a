"""MiniGrid as text: agreement with the package, plans, exact restores."""

import hypothesis
import hypothesis.strategies as st
import interleaved
import numpy as np
import pytest

from arl.envs import base, minigrid_text

pytest.importorskip(
  'minigrid', reason='the adapter is tested against the real package'
)
import gymnasium

GAMES = (
  'MiniGrid-DoorKey-6x6-v0',
  'MiniGrid-Fetch-5x5-N2-v0',
  'MiniGrid-UnlockPickup-v0',
  'MiniGrid-GoToDoor-6x6-v0',
  'MiniGrid-KeyCorridorS3R1-v0',
  'MiniGrid-LavaGapS6-v0',
  'MiniGrid-ObstructedMaze-1Dlh-v0',
  'MiniGrid-MultiRoom-N2-S4-v0',
)
ENV = minigrid_text.make()


@pytest.mark.parametrize('game', GAMES)
def test_the_oracle_earns_one(game):
  env = minigrid_text.make(game=game)
  for split in base.SPLITS:
    for index in range(3):
      task = env.task(split, index)
      exchanges = base.play(env, task, env.oracle, 60)
      rewards = [e.turn.reward for e in exchanges]
      assert rewards == [0] * (len(rewards) - 1) + [1], task
      assert exchanges[-1].turn.done


def test_actions_at_random_seldom_help():
  rng = np.random.default_rng(0)
  act = lambda state: minigrid_text.at_random(state, rng)
  totals = [
    base.play(ENV, ENV.task(base.TRAIN, i), act, 40)[-1].turn.reward
    for i in range(50)
  ]
  assert np.mean(totals) < 0.1


def test_an_episode_from_wherever_it_went_wrong():
  rng = np.random.default_rng(0)
  for index in range(10):
    task = ENV.task(base.TRAIN, index)
    exchanges = base.play(ENV, task, lambda s: ENV.noisy(s, rng), 120)
    assert exchanges[-1].turn.reward == 1.0


def test_steps_are_those_of_the_package():
  rng = np.random.default_rng(0)
  for index in range(5):
    task = ENV.task(base.TRAIN, index)
    real = gymnasium.make(task.data['game']).unwrapped
    real.reset(seed=task.data['seed'])
    state = ENV.reset(task)
    assert real.mission in state.shown and real.pprint_grid() in state.shown
    for _ in range(100):
      action = ENV.noisy(state, rng)
      state, turn = ENV.step(state, action)
      _, reward, ended, cut, _ = real.step(minigrid_text.ACTIONS.index(action))
      assert real.pprint_grid() in turn.text
      assert (turn.reward, turn.done) == (reward > 0, ended or cut)
      assert ('carrying: ' in turn.text) == (real.carrying is not None)
      if turn.done:
        break


@hypothesis.settings(deadline=None, max_examples=30)
@hypothesis.given(data=st.data())
def test_any_order_of_steps_from_kept_states_gives_the_same(data):
  task = ENV.task(base.TRAIN, data.draw(st.integers(0, 5)))
  interleaved.check(ENV, task, ENV.noisy, data, 30)


def test_a_world_ends_after_the_steps_that_the_package_allows():
  task = ENV.task(base.TRAIN, 0)
  state, turn = interleaved.walk(ENV, task, ['left'] * 359)
  assert not turn.done
  state, turn = ENV.step(state, 'left')
  assert (turn.done, turn.reward) == (True, 0.0)
  with pytest.raises(ValueError, match='reset first'):
    ENV.step(state, 'left')


@pytest.mark.parametrize('text', ['', 'Left', 'go', 'x' * 1000, '\x00', 'é'])
def test_bad_actions_are_observations(text):
  state = ENV.reset(ENV.task(base.TRAIN, 0))
  after, turn = base.checked_step(ENV, state, text)
  assert turn.text.startswith('error: say left, ')
  assert (turn.reward, turn.done) == (0.0, False)
  assert after == state._replace(turns=1)


def test_the_splits_share_no_world():
  worlds = [{ENV.task(s, i).prompt for i in range(100)} for s in base.SPLITS]
  assert not set.intersection(*worlds)
  assert ENV.task(base.TRAIN, 3) == ENV.task(base.TRAIN, 3)


def test_refusals():
  with pytest.raises(ValueError, match="'BabyAI-X' is no world"):
    minigrid_text.make(game='BabyAI-X')
  with pytest.raises(ValueError, match='fault is 2'):
    minigrid_text.make(fault=2)
  # One world, which is a training one.
  small = minigrid_text.make(game='MiniGrid-Empty-5x5-v0')
  left = [s for s in base.SPLITS if base.split_of(_only(small)) != s]
  with pytest.raises(ValueError, match='too few worlds'):
    small.task(left[0], 0)


def _only(env):
  for split in base.SPLITS:
    try:
      return env.task(split, 0).prompt
    except ValueError:
      pass
