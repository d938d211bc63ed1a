"""The chain of doors: its rules, its exact distances, its demonstrator."""

import numpy as np
import pytest

from arl import episode
from arl.envs import base, keydoor

ENV = keydoor.make()
# Halls a, b, and the goal c; side rooms d (key) and e, then f and g (key).
TASK = episode.Task(
  'by hand', '', {'halls': 'abc', 'sides': ['de', 'fg'], 'keys': 'dg'}
)


def walk(*actions):
  state, turn = ENV.reset(TASK), None
  for action in actions:
    state, turn = ENV.step(state, action)
  return state, turn


def test_an_episode():
  state, seen = ENV.reset(TASK), []
  actions = (
    'go d', 'take', 'go a', 'open b', 'go b', 'go g', 'take', 'go b', 'open c',
    'go c',
  )  # fmt: skip
  for action in actions:
    state, turn = ENV.step(state, action)
    seen.append((turn.text, turn.reward, turn.done, turn.process))
  assert [text for text, *_ in seen] == [
    '2 d: a key', '2 d: a held', '2 a: b! d e held', '1 a: b d e',
    '1 b: a c! f g', '1 g: b key', '1 g: b held', '1 b: a c! f g held',
    '0 b: a c f g', '0 c: b',
  ]  # fmt: skip
  assert [process for *_, process in seen] == [0, 1, 0, 1, 0, 0, 1, 0, 1, 1]
  assert [reward for _, reward, *_ in seen] == [0] * 9 + [1]
  assert [done for _, _, done, _ in seen] == [False] * 9 + [True]


@pytest.mark.parametrize(
  'before, action, fault',
  [
    ((), 'take', 'no key here'),
    ((), 'go b', 'b is locked'),
    ((), 'open b', 'no key held'),
    ((), 'open d', 'd is open'),
    ((), 'go a', 'no door to a here'),
    ((), 'go c', 'no door to c here'),
    ((), 'go z', 'no door to z here'),
    ((), 'go é', 'rooms are letters'),
    ((), 'go', 'say take, open room or go room'),
    ((), 'go  d', 'say take, open room or go room'),
    ((), 'Go d', 'say take, open room or go room'),
    (('go d', 'take'), 'take', 'no key here'),
    (('go e',), 'take', 'no key here'),
    (('go d', 'take', 'go a', 'open b'), 'open b', 'b is open'),
    (('go d', 'take', 'go a', 'open b', 'go b'), 'open c', 'no key held'),
  ],
)
def test_faults(before, action, fault):
  state, _ = walk(*before)
  after, turn = ENV.step(state, action)
  assert turn == episode.Turn(f'error: {fault}', process=0.0)
  assert after == state._replace(turns=state.turns + 1)


def everywhere(task):
  """All states within reach, by breadth first."""
  start = ENV.reset(task)
  seen, queue = {start[1:4]: start}, [start]
  for state in queue:
    if state.room == task.data['halls'][-1]:
      continue
    for action in [
      'take',
      *(f'{v} {r}' for v in ('go', 'open') for r in ROOMS),
    ]:
      after, _ = ENV.step(state, action)
      if after[1:4] not in seen:
        seen[after[1:4]] = after
        queue.append(after)
  return list(seen.values())


ROOMS = 'abcdefg'


def test_distances_by_hand_and_by_the_bellman_equation():
  assert keydoor.turns_left(walk()[0]) == 10
  assert keydoor.turns_left(walk('go e')[0]) == 11
  assert keydoor.turns_left(walk('go d', 'take', 'go a', 'open b')[0]) == 6
  for state in everywhere(TASK):
    left = keydoor.turns_left(state)
    if state.room == 'c':
      assert left == 0
      continue
    actions = ['take', *(f'{v} {r}' for v in ('go', 'open') for r in ROOMS)]
    ahead = [keydoor.turns_left(ENV.step(state, a)[0]) for a in actions]
    assert left == 1 + min(ahead)


def test_what_is_seen_tells_the_state():
  states = everywhere(TASK)
  assert len(states) == len({ENV.anchor(state) for state in states}) > 20


@pytest.mark.parametrize('length, sides', [(1, 1), (2, 2), (4, 3), (8, 2)])
def test_the_oracle_takes_five_turns_a_door(length, sides):
  env = keydoor.make(length=length, sides=sides)
  for index in range(50):
    task = env.task(base.HELD_OUT, index)
    exchanges = base.play(env, task, env.oracle, 5 * length)
    assert len(exchanges) == 5 * length
    assert exchanges[-1].turn.reward == 1.0
    assert sum(e.turn.process for e in exchanges) == 2 * length + 1


def test_a_key_fits_its_own_door_alone():
  state, _ = walk('go d', 'take', 'go a', 'open b', 'go b', 'go a', 'go d')
  assert ENV.anchor(state) == '1 d: a'


@pytest.mark.parametrize('sides, rooms', [(2, 7), (9, 21)])
def test_maps_differ_and_splits_share_none(sides, rooms):
  env = keydoor.make(sides=sides)
  maps = {}
  for split in base.SPLITS:
    tasks = [env.task(split, index).data for index in range(500)]
    maps[split] = {str(data) for data in tasks}
    for data in tasks:
      assert len(set(data['halls']).union(*data['sides'])) == rooms
      assert all(k in part for k, part in zip(data['keys'], data['sides']))
  assert not maps[base.TRAIN] & maps[base.HELD_OUT]
  assert len(maps[base.TRAIN]) == 500


@pytest.mark.parametrize(
  'turns, low, high', [(10, 0.15, 0.25), (15, 0.74, 0.84)]
)
def test_the_demonstrator_is_fallible(turns, low, high):
  rng = np.random.default_rng(0)
  rewards = [
    base.play(ENV, ENV.task(base.TRAIN, i), lambda s: ENV.noisy(s, rng), turns)[
      -1
    ].turn.reward
    for i in range(1000)
  ]
  assert low < np.mean(rewards) < high


def test_the_rules_can_be_told():
  assert ENV.task(base.TRAIN, 0).system == ''
  told = keydoor.make(system=keydoor.RULES).task(base.TRAIN, 0)
  assert told.system == keydoor.RULES
  assert told._replace(system='') == ENV.task(base.TRAIN, 0)
