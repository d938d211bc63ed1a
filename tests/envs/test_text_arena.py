"""TextArena's games: oracles, determinism, exact restores from any thread."""

import concurrent.futures
import random

import hypothesis
import hypothesis.strategies as st
import interleaved
import numpy as np
import pytest

from arl.envs import base, text_arena, text_arena_oracles

pytest.importorskip(
  'textarena', reason='the adapter is tested against the real package'
)
ENVS = {name: text_arena.make(game=name) for name in text_arena.GAMES}
QUICK = sorted(ENVS.keys() - {'RushHour', '2048', 'Sudoku'})


@pytest.mark.parametrize('game', text_arena_oracles.ORACLES)
def test_the_oracle_earns_one(game):
  env = ENVS[game]
  for split in base.SPLITS:
    for index in range(2 if game == 'Sudoku' else 20):
      exchanges = base.play(env, env.task(split, index), env.oracle, 100)
      rewards = [e.turn.reward for e in exchanges]
      assert rewards == [0] * (len(rewards) - 1) + [1]
      assert exchanges[-1].turn.done


def test_oracles_take_the_fewest_moves():
  env = ENVS['TowerOfHanoi']
  task = env.task(base.TRAIN, 0)
  assert len(base.play(env, task, env.oracle, 100)) == 7
  # From wherever a stray move led, too: A C is undone on the way.
  state, _ = interleaved.walk(env, task, ['[A B]', '[A C]'])
  moves = 0
  while not state.over:
    state, _ = env.step(state, env.oracle(state))
    moves += 1
  assert moves == 7
  env = ENVS['LightsOut']
  for index in range(20):
    exchanges = base.play(env, env.task(base.TRAIN, index), env.oracle, 50)
    assert len(exchanges) <= 15  # what any 5 x 5 grid needs at most


def test_there_is_no_oracle_where_none_is_exact():
  env = ENVS['Minesweeper']
  state = env.reset(env.task(base.TRAIN, 0))
  with pytest.raises(NotImplementedError, match='Minesweeper has no oracle'):
    env.oracle(state)
  assert env.noisy(state, np.random.default_rng(0)).startswith('[')


@pytest.mark.parametrize('game', QUICK)
def test_actions_at_random_seldom_win(game):
  env, rng = ENVS[game], np.random.default_rng(0)
  won = []
  for index in range(20):
    state = env.reset(env.task(base.TRAIN, index))
    for _ in range(15):
      state, turn = env.step(state, text_arena.at_random(state, rng))
      assert 0 <= turn.process <= 1
      if turn.done:
        break
    won.append(turn.reward)
  few = {'GuessTheNumber': 0.8, 'Secretary': 0.5, 'Bandit': 0.5}
  assert np.mean(won) <= few.get(game, 0.3)


@hypothesis.settings(deadline=None, max_examples=10)
@hypothesis.given(data=st.data())
@pytest.mark.parametrize('game', [*QUICK, '2048'])
def test_any_order_of_steps_from_kept_states_gives_the_same(game, data):
  env = ENVS[game]
  task = env.task(base.TRAIN, data.draw(st.integers(0, 5)))
  interleaved.check(env, task, env.noisy, data, 12)


def test_chance_is_the_game_s_own_in_every_thread():
  env = ENVS['2048']
  tasks = [env.task(base.TRAIN, index) for index in range(6)]
  moves = ['[up]', '[left]', '[down]', '[right]'] * 4
  alone = [interleaved.walk(env, task, moves) for task in tasks]
  other = text_arena.make(game='2048')
  with concurrent.futures.ThreadPoolExecutor(6) as threads:
    found = list(
      threads.map(lambda t: interleaved.walk(other, t, moves), tasks)
    )
  assert found == alone
  random.seed(5)
  before = random.getstate()
  interleaved.walk(env, tasks[0], moves)
  assert random.getstate() == before


def test_an_invalid_move_is_an_error_and_a_second_one_the_end():
  env = ENVS['FrozenLake']
  state, turn = interleaved.walk(env, env.task(base.TRAIN, 0), ['up please'])
  assert turn.text.startswith('error: You attempted an invalid move.')
  assert (turn.reward, turn.done) == (0.0, False)
  good, turn = env.step(state, env.oracle(state))
  assert not turn.text.startswith('error: ')
  bad, turn = env.step(state, 'up please')
  assert (turn.reward, turn.done, turn.process) == (0.0, True, 0.0)
  with pytest.raises(ValueError, match='reset first'):
    env.step(bad, '[up]')


@pytest.mark.parametrize('game', QUICK)
@pytest.mark.parametrize('text', ['', 'x' * 10_000, '\x00', '[]', '[é 1 +]'])
def test_junk_never_breaks_a_game(game, text):
  env = ENVS[game]
  state = env.reset(env.task(base.TRAIN, 0))
  state, turn = base.checked_step(env, state, text)
  assert turn.text.startswith('error: ') or turn.done
  if not turn.done:
    assert base.checked_step(env, state, text)[1].reward == 0.0


def test_the_splits_share_no_seed():
  env = ENVS['Mastermind']
  seeds = [
    {env.task(split, i).data['seed'] for i in range(100)}
    for split in base.SPLITS
  ]
  assert not set.intersection(*seeds)
  assert env.task(base.TRAIN, 2) == env.task(base.TRAIN, 2)


def test_refusals():
  with pytest.raises(ValueError, match="no game 'Chess'; games: 2048"):
    text_arena.make(game='Chess')
  with pytest.raises(ValueError, match='fault is 2'):
    text_arena.make(fault=2)
