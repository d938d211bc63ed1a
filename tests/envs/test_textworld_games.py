"""TextWorld's games: the way to win, what is seen, exact restores."""

import hypothesis
import hypothesis.strategies as st
import interleaved
import numpy as np
import pytest

from arl.envs import base, textworld_games

pytest.importorskip(
  'textworld', reason='the adapter is tested against the real package'
)


@pytest.fixture(scope='module')
def env():
  return textworld_games.make()


@pytest.mark.parametrize('split', base.SPLITS)
def test_the_oracle_wins(env, split):
  for index in range(4):
    exchanges = base.play(env, env.task(split, index), env.oracle, 4)
    rewards = [e.turn.reward for e in exchanges]
    assert rewards == [0] * (len(rewards) - 1) + [1]
    assert {e.turn.process for e in exchanges} == {1.0}
    assert exchanges[-1].turn.done


def test_games_of_other_sizes():
  env = textworld_games.make(rooms=5, objects=10, quest=7)
  task = env.task(base.TRAIN, 0)
  exchanges = base.play(env, task, env.oracle, 7)
  assert exchanges[-1].turn.reward == 1.0
  assert task.id == 'textworld_games/rooms=5/objects=10/quest=7/train/0'


def test_actions_at_random_seldom_help(env):
  rng = np.random.default_rng(0)
  act = lambda state: textworld_games.at_random(state, rng)
  won = [
    base.play(env, env.task(base.TRAIN, i % 4), act, 8)[-1].turn.reward
    for i in range(40)
  ]
  assert np.mean(won) < 0.2


def test_a_way_to_win_from_wherever_it_went_wrong(env):
  rng = np.random.default_rng(0)
  for index in range(4):
    state, rewards = env.reset(env.task(base.TRAIN, index)), 0.0
    for _ in range(60):
      state, turn = env.step(state, env.noisy(state, rng))
      rewards += turn.reward
      if turn.done or not state.view.way:
        break
    assert rewards == 1.0 or not state.view.way


def test_what_is_seen(env):
  task = env.task(base.TRAIN, 0)
  state = env.reset(task)
  assert task.prompt.endswith(state.view.shown)
  for part in ('You are in the ', ' Here: ', ' Exits: ', ' You have: '):
    assert part in state.view.shown
  assert all(command in state.view.shown for command in state.view.commands)
  assert not any('examine' in c or c == 'look' for c in state.view.commands)


def test_what_is_in_a_closed_container_is_not_seen(env):
  seen = 0
  for index in range(4):
    state = env.reset(env.task(base.TRAIN, index))
    while not state.view.over:
      command = env.oracle(state)
      if command.startswith('open '):
        thing = command.removeprefix('open ')
        assert f'{thing} (closed)' in state.view.shown
        after, turn = env.step(state, command)
        assert f'{thing} (open' in turn.text
        seen += 1
      state, _ = env.step(state, env.oracle(state))
  assert seen


def test_tasks_are_pure_and_the_splits_share_no_seed(env):
  first = [env.task(split, i) for split in base.SPLITS for i in range(3)]
  textworld_games._game.cache_clear()
  again = [env.task(split, i) for split in base.SPLITS for i in range(3)]
  assert first == again
  assert len({task.data['seed'] for task in first}) == 6


@hypothesis.settings(deadline=None, max_examples=15)
@hypothesis.given(data=st.data())
def test_any_order_of_steps_from_kept_states_gives_the_same(env, data):
  task = env.task(base.TRAIN, data.draw(st.integers(0, 3)))
  interleaved.check(env, task, textworld_games.at_random, data, 10)


@pytest.mark.parametrize('text', ['', 'Go east!', 'x' * 1000, '\x00', 'é'])
def test_bad_actions_are_observations(env, text):
  state = env.reset(env.task(base.TRAIN, 0))
  after, turn = base.checked_step(env, state, text)
  assert turn.text.startswith('error: you cannot do that\n')
  assert (turn.reward, turn.done) == (0.0, False)
  assert after == state._replace(turns=1)


def test_no_step_beyond_the_end(env):
  state = env.reset(env.task(base.TRAIN, 0))
  while not state.view.over:
    state, _ = env.step(state, env.oracle(state))
  with pytest.raises(ValueError, match='reset first'):
    env.step(state, 'look')


def test_refusals():
  with pytest.raises(ValueError, match='rooms is 1; give 2 or more'):
    textworld_games.make(rooms=1)
  with pytest.raises(ValueError, match='fault is 2'):
    textworld_games.make(fault=2)
