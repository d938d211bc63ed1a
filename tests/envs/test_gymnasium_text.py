"""Gymnasium's tabular games: their values, and agreement with the package."""

import numpy as np
import pytest

from arl.envs import base, gridworld, gymnasium_text, gymnasium_values

gymnasium = pytest.importorskip(
  'gymnasium', reason='the adapter is tested against the real package'
)
LAKE = ('SFFF', 'FHFH', 'FFFH', 'HFFG')
ENVS = {
  'frozen_lake': gymnasium_text.make(game='frozen_lake'),
  'taxi': gymnasium_text.make(game='taxi'),
  'cliff_walking': gymnasium_text.make(game='cliff_walking'),
}
STARTS = {
  'frozen_lake': (0, LAKE),
  'taxi': (4, ()),
  'cliff_walking': (36, ()),
}


@pytest.fixture(params=ENVS)
def game(request):
  return request.param


@pytest.mark.parametrize('split', base.SPLITS)
def test_the_oracle_earns_one(game, split):
  env = ENVS[game]
  for index in range(100):
    exchanges = base.play(env, env.task(split, index), env.oracle, 30)
    assert [e.turn.reward for e in exchanges] == [0] * (len(exchanges) - 1) + [
      1
    ]
    assert exchanges[-1].turn.done


def test_an_action_at_random_seldom_helps(game):
  env, rng = ENVS[game], np.random.default_rng(0)
  act = lambda state: gymnasium_text.at_random(state, rng)
  totals = []
  for index in range(100):
    exchanges = base.play(env, env.task(base.TRAIN, index), act, 20)
    totals.append(sum(e.turn.reward for e in exchanges))
  assert np.mean(totals) < 0.2


def test_the_splits_share_no_problem(game):
  env = ENVS[game]
  problems = [
    {env.task(split, i).prompt for i in range(300)} for split in base.SPLITS
  ]
  assert not set.intersection(*problems)
  assert env.task(base.TRAIN, 7) == env.task(base.TRAIN, 7)


@pytest.mark.parametrize('slippery', [False, True])
def test_steps_follow_the_package(game, slippery):
  """Each step is one that the package could make, and is paid the same."""
  env = gymnasium_text.make(game=game, slippery=slippery)
  start, rows = STARTS[game]
  task = gymnasium_text.from_start(game, slippery, start, rows)
  spec = gymnasium_values.GAMES[game]
  keywords = {'desc': list(rows)} if rows else {}
  real = gymnasium.make(
    spec.id, **{spec.slippery: slippery}, **keywords
  ).unwrapped
  rng = np.random.default_rng(1)
  for stream in range(10):
    state = env.reset(task)._replace(stream=stream)
    for _ in range(40):
      action = gymnasium_text.at_random(state, rng)
      before = state.place
      state, turn = env.step(state, action)
      could = real.P[before][spec.actions.index(action)]
      assert any(
        (state.place, turn.process, turn.done) == (s, r, d)
        for _, s, r, d in could
      )
      if not slippery:
        real.reset()
        real.s = before
        seen, reward, done, *_ = real.step(spec.actions.index(action))
        assert (seen, reward, done) == (state.place, turn.process, turn.done)
      if turn.done:
        break


def test_slips_come_as_often_as_the_package_says():
  env = gymnasium_text.make(game='frozen_lake', slippery=True)
  task = gymnasium_text.from_start('frozen_lake', True, 4, LAKE)
  places = [
    env.step(env.reset(task)._replace(stream=i), 'down')[0].place
    for i in range(3000)
  ]
  # Down from 4: 8, or aside to the hole 5 or against the wall.
  counts = [places.count(place) for place in (8, 5, 4)]
  assert sum(counts) == 3000
  assert max(abs(count - 1000) for count in counts) < 4 * np.sqrt(3000 * 2 / 9)


def test_values_of_the_slippery_lake_are_those_of_the_gridworld():
  task = gymnasium_text.from_start('frozen_lake', True, 0, LAKE)
  values = gymnasium_values.optimal_values(task, 0.99)
  ours = gridworld.optimal_values(gridworld.lake('4x4'), 0.99)
  np.testing.assert_allclose(values, ours, atol=1e-9)
  policy = gymnasium_values.oracle_policy(task)
  np.testing.assert_allclose(
    gymnasium_values.policy_values(task, policy, 0.99), values, atol=1e-9
  )
  assert gymnasium_values.success(task, policy)[0] == pytest.approx(14 / 17)


def test_values_of_the_other_games():
  # 13 steps along the cliff, each paid -1.
  task = gymnasium_text.from_start('cliff_walking', False, 36)
  value = -(1 - 0.99**13) / 0.01
  assert gymnasium_values.optimal_values(task, 0.99)[36] == pytest.approx(value)
  # The taxi at red with the passenger, who wants to go there.
  task = gymnasium_text.from_start('taxi', False, 4)
  assert gymnasium_values.optimal_values(task, 0.99)[16] == pytest.approx(20)
  policy = gymnasium_values.oracle_policy(task)
  np.testing.assert_allclose(
    gymnasium_values.policy_values(task, policy, 0.99),
    gymnasium_values.optimal_values(task, 0.99),
    atol=1e-9,
  )


def test_the_policy_at_random_is_valued_as_it_fares():
  env = gymnasium_text.make(game='frozen_lake')
  task = gymnasium_text.from_start('frozen_lake', False, 0, LAKE)
  even = np.full((16, 4), 0.25)
  chance = gymnasium_values.success(task, even)[0]
  rng = np.random.default_rng(0)
  act = lambda state: gymnasium_text.at_random(state, rng)
  won = [base.play(env, task, act, 1000)[-1].turn.reward for _ in range(4000)]
  assert abs(np.mean(won) - chance) < 4 * np.sqrt(chance / 4000)


def test_what_is_seen():
  task = gymnasium_text.from_start('frozen_lake', False, 0, LAKE)
  assert task.prompt == 'A...\n.H.H\n...H\nH..G'
  task = gymnasium_text.from_start('taxi', False, 328)
  assert task.prompt == (
    'taxi T at row 3 column 1; passenger at yellow; to red\n'
    'R: | : :G\n : | : : \n : : : : \n |T| : | : \nY| : |B: '
  ).replace(' |T| : | : ', ' |T: | : ')


def test_an_anchor_is_the_state(game):
  env, rng = ENVS[game], np.random.default_rng(0)
  start, rows = STARTS[game]
  anchors = {}
  for _ in range(30):
    state = env.reset(gymnasium_text.from_start(game, False, start, rows))
    for _ in range(20):
      anchors.setdefault(state.place, set()).add(env.anchor(state))
      state, turn = env.step(state, env.noisy(state, rng))
      if turn.done:
        break
  assert {len(seen) for seen in anchors.values()} == {1}
  assert len(set.union(*anchors.values())) == len(anchors)


def test_a_state_is_a_snapshot(game):
  env, rng = ENVS[game], np.random.default_rng(0)
  state, kept = env.reset(env.task(base.TRAIN, 0)), []
  for _ in range(15):
    action = env.noisy(state, rng)
    after, turn = env.step(state, action)
    kept.append((state, action, after, turn))
    if turn.done:
      break
    state = after
  for state, action, after, turn in reversed(kept):
    assert env.step(state, action) == (after, turn)


@pytest.mark.parametrize('text', ['', 'up!', 'x' * 1000, '\x00', 'é'])
def test_bad_actions_are_observations(game, text):
  env = ENVS[game]
  state = env.reset(env.task(base.TRAIN, 0))
  after, turn = base.checked_step(env, state, text)
  assert turn.text.startswith('error: say ')
  assert (turn.reward, turn.done, after.turns) == (0.0, False, 1)
  assert after.place == state.place


def test_refusals():
  with pytest.raises(ValueError, match="no game 'chess'; games: frozen_lake"):
    gymnasium_text.make(game='chess')
  with pytest.raises(ValueError, match='size is 2'):
    gymnasium_text.make(game='frozen_lake', size=2)
  with pytest.raises(ValueError, match='fault is 2'):
    gymnasium_text.make(game='taxi', fault=2)
  with pytest.raises(ValueError, match='a frozen lake has one'):
    gymnasium_text.from_start('frozen_lake', False, 0)
  task = gymnasium_text.from_start('taxi', False, 4)
  with pytest.raises(ValueError, match='gamma is 1'):
    gymnasium_values.optimal_values(task, 1.0)
  with pytest.raises(ValueError, match='shape'):
    gymnasium_values.success(task, np.ones((2, 2)))
