"""What every environment promises, checked on all of them."""

import json

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from arl.envs import (
  arithmetic,
  base,
  countdown,
  gridworld,
  keydoor,
  retail,
  search,
  shop,
  sokoban,
  tools,
)

# name -> (environment, turns its oracle may need)
ENVS = {
  'tools': (tools.make(), 4),
  'tools without pointers': (tools.make(max_hops=0), 2),
  'tools with five pointers': (tools.make(max_hops=5), 7),
  'gridworld': (gridworld.make(), 9),
  'gridworld 4': (gridworld.make(size=4, holes=5), 16),
  'gridworld 5': (gridworld.make(size=5, holes=0), 25),
  'arithmetic': (arithmetic.make(), 2),
  'arithmetic 1': (arithmetic.make(digits=1), 2),
  'countdown': (countdown.make(), 2),
  'countdown 4': (countdown.make(numbers=4, highest=50), 2),
  'keydoor': (keydoor.make(), 10),
  'keydoor 8': (keydoor.make(length=8), 40),
  'retail': (retail.make(), 8),
  'retail, large': (retail.make(users=9, orders=4, items=2), 10),
  'search': (search.make(), 3),
  'search, articles': (
    search.make(style='articles', max_hops=3, passages=3),
    4,
  ),
  'shop': (shop.make(), 5),
  'shop, large': (shop.make(products=1000, options=2, per_page=5), 6),
  'sokoban': (sokoban.make(), 8),
  'sokoban 2': (
    sokoban.make(rows=4, columns=4, walls=2, boxes=2, least=5, most=10),
    10,
  ),
}
SLIPPERY = gridworld.make(slip=2 / 3)


@pytest.fixture(params=ENVS)
def played(request):
  return ENVS[request.param]


def states(env, task, max_turns, rng):
  """The states a noisy demonstrator comes through, but for the last."""
  state, seen = env.reset(task), []
  for _ in range(max_turns):
    action = env.noisy(state, rng)
    seen.append((state, action))
    state, turn = env.step(state, action)
    if turn.done:
      break
  return seen


def same(left, right):
  """Equality of states by what they hold."""
  return repr(left) == repr(right)


@pytest.mark.parametrize('split', base.SPLITS)
def test_oracle_earns_one(played, split):
  env, max_turns = played
  for index in range(100):
    task = env.task(split, index)
    exchanges = base.play(env, task, env.oracle, max_turns)
    assert [e.turn.reward for e in exchanges[:-1]] == [0] * (len(exchanges) - 1)
    assert exchanges[-1].turn.reward == 1.0, task.id
    assert exchanges[-1].turn.done


def test_tasks_are_pure_and_distinct(played):
  env, _ = played
  tasks = [env.task(split, i) for split in base.SPLITS for i in range(100)]
  again = [env.task(split, i) for split in base.SPLITS for i in range(100)]
  assert tasks == again
  assert len({task.id for task in tasks}) == 200


def test_task_data_survive_json(played):
  env, max_turns = played
  for index in range(20):
    task = env.task(base.TRAIN, index)
    read = task._replace(data=json.loads(json.dumps(task.data)))
    assert read == task
    assert base.play(env, read, env.oracle, max_turns)[-1].turn.reward == 1.0


def test_tasks_refuse_bad_arguments(played):
  env, _ = played
  with pytest.raises(ValueError, match="no split 'test'"):
    env.task('test', 0)
  with pytest.raises(ValueError, match='indices start at 0'):
    env.task(base.TRAIN, -1)


@pytest.mark.parametrize(
  'env',
  [env for env, _ in ENVS.values()] + [SLIPPERY],
  ids=[*ENVS, 'gridworld, slippery'],
)
def test_step_is_pure_and_a_state_is_a_snapshot(env):
  rng = np.random.default_rng(0)
  for index in range(20):
    task = env.task(base.TRAIN, index)
    kept = states(env, task, 8, rng)
    before = [repr(state) for state, _ in kept]
    first = [env.step(state, action) for state, action in kept]
    second = [env.step(state, action) for state, action in reversed(kept)]
    assert all(map(same, first, reversed(second)))
    assert [repr(state) for state, _ in kept] == before


@hypothesis.settings(deadline=None, max_examples=25)
@hypothesis.given(data=st.data())
@pytest.mark.parametrize('name', ENVS)
def test_any_order_of_steps_from_kept_states_gives_the_same(name, data):
  """Branches grow from states kept anywhere, in any order; each is replayed."""
  env, _ = ENVS[name]
  task = env.task(base.TRAIN, data.draw(st.integers(0, 50)))
  rng = np.random.default_rng(data.draw(st.integers(0, 99)))
  grown = [(env.reset(task), (), None)]
  for _ in range(data.draw(st.integers(1, 12))):
    state, actions, turn = grown[data.draw(st.integers(0, len(grown) - 1))]
    if turn and turn.done:
      continue
    act = data.draw(st.sampled_from([env.noisy, lambda s, _: env.oracle(s)]))
    action = act(state, rng)
    after, turn = env.step(state, action)
    grown.append((after, (*actions, action), turn))
  for state, actions, turn in grown:
    again, last = env.reset(task), None
    for action in actions:
      again, last = env.step(again, action)
    assert same((again, last), (state, turn))
    if env.anchor:
      assert env.anchor(again) == env.anchor(state)


def test_states_are_immutable(played):
  env, _ = played
  state = env.reset(env.task(base.TRAIN, 0))
  with pytest.raises(AttributeError):
    state.turns = 3


JUNK = ('', ' ', 'hello', 'get', 'get(', '()', '\x00', 'é' * 50, 'x' * 10_000)


# What is no action elsewhere is said to the user of a desk.
TALK = {
  'retail': ('hello', 'get', 'é' * 50),
  'retail, large': ('hello', 'get', 'é' * 50),
}


@pytest.mark.parametrize('text', JUNK)
@pytest.mark.parametrize('name', ENVS)
def test_bad_actions_are_observations(name, text):
  env, _ = ENVS[name]
  state, turn = base.checked_step(env, env.reset(env.task(base.TRAIN, 0)), text)
  talk = text in TALK.get(name, ())
  assert turn.text.lower().startswith('error: ') != talk
  assert len(turn.text) < 80
  assert (turn.reward, turn.done) == (0.0, False)
  assert state.turns == 1


@hypothesis.settings(deadline=None, max_examples=40)
@hypothesis.given(data=st.data())
@pytest.mark.parametrize('name', ENVS)
def test_whatever_is_said_is_answered(name, data):
  """Any text, and right actions with a piece put in or taken out."""
  env, _ = ENVS[name]
  state = env.reset(env.task(base.TRAIN, data.draw(st.integers(0, 20))))
  for _ in range(data.draw(st.integers(1, 5))):
    text = env.oracle(state)
    match data.draw(st.sampled_from(['right', 'any', 'out', 'in'])):
      case 'any':
        text = data.draw(st.text())
      case 'out':
        at = data.draw(st.integers(0, len(text) - 1))
        text = text[:at] + text[at + 1 :]
      case 'in':
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(st.text(min_size=1)) + text[at:]
    turns = state.turns
    state, turn = base.checked_step(env, state, text)
    assert state.turns == turns + 1
    assert 0 <= turn.reward <= turn.done
    assert len(turn.text) < 500
    if turn.text.lower().startswith('error: '):
      assert len(turn.text) < 80
    if turn.done:
      return


def test_no_step_beyond_the_end(played):
  env, max_turns = played
  state = env.reset(env.task(base.TRAIN, 0))
  for _ in range(max_turns):
    state, turn = env.step(state, env.oracle(state))
    if turn.done:
      break
  with pytest.raises(ValueError, match='reset first'):
    env.step(state, 'up')


@pytest.mark.parametrize(
  'make, hyperparameters, sentence',
  [
    (tools.make, {'max_hops': -1}, 'max_hops is -1'),
    (tools.make, {'guess': 1.5}, 'guess is 1.5'),
    (gridworld.make, {'size': 2}, 'size is 2'),
    (gridworld.make, {'size': 3, 'holes': 7}, '7 holes'),
    (gridworld.make, {'slip': -0.1}, 'slip is -0.1'),
    (arithmetic.make, {'digits': 0}, 'digits is 0'),
    (arithmetic.make, {'fault': 2}, 'fault is 2'),
    (countdown.make, {'numbers': 1}, 'numbers is 1'),
    (countdown.make, {'highest': 4}, 'highest 4'),
    (countdown.make, {'guess': 2}, 'guess is 2'),
    (keydoor.make, {'length': 0}, 'length 0'),
    (keydoor.make, {'length': 20}, '61 rooms'),
    (keydoor.make, {'fault': 2}, 'fault is 2'),
    (retail.make, {'users': 0}, '0 users'),
    (retail.make, {'orders': 4, 'items': 3}, '4 orders of 3 items'),
    (retail.make, {'forbidden': 2}, 'forbidden is 2'),
    (search.make, {'style': 'web'}, "no style 'web'; styles: letters, art"),
    (search.make, {'grade': 'bleu'}, "no grade 'bleu'; grades: exact_match"),
    (search.make, {'max_hops': 4}, '1 to 4 hops'),
    (search.make, {'entities': 99}, 'entities is 99'),
    (search.make, {'passages': 0}, 'passages is 0'),
    (search.make, {'fault': 2}, 'fault is 2'),
    (shop.make, {'products': 59}, 'products is 59'),
    (shop.make, {'options': 3}, 'options is 3'),
    (shop.make, {'pages': 0}, 'pages 0'),
    (shop.make, {'fault': 2}, 'fault is 2'),
    (sokoban.make, {'least': 9}, 'of 9 to 8 moves'),
    (sokoban.make, {'boxes': 4}, '4 boxes and 2 walls in 4 x 4'),
    (sokoban.make, {'fault': 2}, 'fault is 2'),
  ],
)
def test_make_refuses(make, hyperparameters, sentence):
  with pytest.raises(ValueError, match=sentence):
    make(**hyperparameters)
