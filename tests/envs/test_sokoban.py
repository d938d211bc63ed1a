"""Sokoban: its rules, its rooms, and the search against a plainer one."""

import random

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from arl import episode
from arl.envs import base, sokoban, sokoban_rooms

ENV = sokoban.make()


def walk(room, *actions):
  state, turn = ENV.reset(sokoban.from_room(room)), None
  for action in actions:
    state, turn = ENV.step(state, action)
  return state, turn


def test_an_episode():
  state, turn = walk('@-$-.', 'right')
  assert turn == episode.Turn('-@$-.', 0.0, False, 0.0)
  state, turn = walk('@-$-.', 'right', 'right')
  assert turn == episode.Turn('--@$.', 0.0, False, 0.0)
  state, turn = walk('@-$-.', 'right', 'right', 'right')
  assert turn == episode.Turn('---@*', 1.0, True, 1.0)
  assert state.turns == 3


@pytest.mark.parametrize(
  'room, action, seen',
  [
    ('@-\n.$', 'right', '-@\n.$'),
    ('@-\n.$', 'left', '@-\n.$'),  # the edge
    ('@#$-.', 'right', '@#$-.'),  # a wall
    ('@$$..', 'right', '@$$..'),  # two boxes
    ('@$#-.', 'right', '@$#-.'),  # a box against a wall
    ('.-@$', 'right', '.-@$'),  # a box against the edge
    ('@.-$', 'right', '-+-$'),  # onto a goal
    ('+-$', 'right', '.@$'),  # off a goal
    ('@$.-$.', 'right', '-@*-$.'),  # a box onto a goal
    ('@*-$.', 'right', '-+$$.'),  # a box off a goal
    ('+*-$', 'right', '.+$$'),  # from goal to goal
    ('.\n$\n@', 'up', '*\n@\n-'),
    ('@\n$\n.', 'down', '-\n@\n*'),
    ('.$@', 'left', '*@-'),
  ],
)
def test_moves(room, action, seen):
  state, turn = walk(room, action)
  assert turn.text == state.room == ENV.anchor(state) == seen
  assert turn.done == ('$' not in seen)


def test_scores_of_steps():
  assert walk('@$.-$.', 'right')[1].process == 1.0
  assert walk('@*-$.', 'right')[1].process == -1.0
  assert walk('@-*-$.', 'right')[1].process == 0.0
  assert walk('@-*-$.', 'hm')[1].process == 0.0


def test_a_bad_action_shows_the_room_again():
  _, turn = walk('@$.', 'Right')
  assert turn.text == 'error: say up, down, left, right\n@$.'


@pytest.mark.parametrize(
  'room',
  ['', '@', '@.', '$.', '@$', '@@$.', '@$..', '@$.\n-', '@$.x', '@ $.'],
)
def test_bad_rooms(room):
  with pytest.raises(ValueError, match='must be a rectangle'):
    sokoban.from_room(room)


def test_a_solved_room_is_no_task():
  with pytest.raises(ValueError, match='is solved'):
    sokoban.from_room('@*')


@pytest.mark.parametrize(
  'room, moves',
  [
    ('@$.', 1),
    ('@-$-.', 3),
    ('-.-\n-$-\n-@-', 1),
    ('-.-\n-$-\n--@', 2),
    ('-@-\n-$-\n-.-', 1),
    ('.--\n-$-\n--@', 5),  # left, up, and around the box to push it left
    ('@-#\n$-.\n---', None),
    ('@-\n$-\n-.', None),  # the box is at the edge, and the goal is not
  ],
)
def test_moves_left_by_hand(room, moves):
  if moves is None:
    assert sokoban.moves_left(walk(room)[0]) is None
    assert sokoban.oracle(walk(room)[0]) == 'up'
  else:
    assert sokoban.moves_left(walk(room)[0]) == moves


def plain(state):
  """The fewest moves by stepping the environment itself, nothing left out."""
  distance, queue = {state.room: 0}, [state]
  for at in queue:
    for action in sokoban.ACTIONS:
      after, turn = ENV.step(at, action)
      if turn.done:
        return distance[at.room] + 1
      if after.room not in distance:
        distance[after.room] = distance[at.room] + 1
        queue.append(after)
  return None


@hypothesis.settings(deadline=None, max_examples=60)
@hypothesis.given(st.integers(0, 10**6), st.integers(1, 2), st.integers(4, 30))
def test_rooms_can_be_solved_and_the_search_is_exact(seed, boxes, pulls):
  rng = random.Random(seed)
  room = None
  while room is None:
    room = sokoban_rooms.draw(4, 4, 2, boxes, pulls, rng)
  assert sokoban_rooms.write(*sokoban_rooms.read(room)) == room
  state = ENV.reset(sokoban.from_room(room))
  assert sokoban.moves_left(state) == plain(state) > 0


@hypothesis.settings(deadline=None, max_examples=60)
@hypothesis.given(st.permutations('@$.--------#'), st.integers(0, 3))
def test_the_search_is_exact_where_nothing_solves(cells, walls):
  cells = ''.join(cells).replace('-', '#', walls)
  task = sokoban.from_room('\n'.join(cells[i : i + 4] for i in (0, 4, 8)))
  state = ENV.reset(task)
  assert sokoban.moves_left(state) == plain(state)


def test_tasks():
  rooms = {}
  for split in base.SPLITS:
    tasks = [ENV.task(split, index) for index in range(300)]
    rooms[split] = {task.prompt for task in tasks}
    for task in tasks:
      assert 4 <= sokoban.moves_left(ENV.reset(task)) <= 8
      assert task.prompt.count('#') == 2
      assert task.prompt.count('$') == task.prompt.count('.') == 1 or (
        '+' in task.prompt
      )
  assert not rooms[base.TRAIN] & rooms[base.HELD_OUT]
  assert len(rooms[base.TRAIN]) > 250


def test_what_cannot_be_drawn_is_said(monkeypatch):
  monkeypatch.setattr(sokoban, '_DRAWS', 500)
  env = sokoban.make(rows=3, columns=3, walls=0, least=50, most=60)
  with pytest.raises(ValueError, match='no room of 50 to 60 moves in 500'):
    env.task(base.TRAIN, 0)


def test_the_demonstrator_is_fallible():
  rng = np.random.default_rng(0)
  rewards = [
    base.play(ENV, ENV.task(base.TRAIN, i), lambda s: ENV.noisy(s, rng), 8)[
      -1
    ].turn.reward
    for i in range(1000)
  ]
  assert 0.4 < np.mean(rewards) < 0.6
