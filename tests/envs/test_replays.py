"""Live games behind pure states: replays, threads, memory."""

import concurrent.futures

import pytest

from arl import episode
from arl.envs import extras, replays

TASK = episode.Task('one', '', {})


def counting(live=replays.LIVE):
  """A game that is the list of its actions, and what was started and closed."""
  started, closed = [], []

  def start(task):
    started.append(task.id)
    return []

  def act(game, action):
    game.append(action)
    return ' '.join(game)

  return replays.stepper(start, act, closed.append, live), started, closed


def test_a_line_of_play_uses_one_game():
  step, started, _ = counting()
  actions = ()
  for action in 'abc':
    seen = step(TASK, actions, action)
    actions = (*actions, action)
  assert seen == 'a b c'
  assert started == ['one']


def test_a_state_that_was_played_on_is_played_again():
  step, started, _ = counting()
  assert step(TASK, (), 'a') == 'a'
  assert step(TASK, ('a',), 'b') == 'a b'
  assert step(TASK, ('a',), 'c') == 'a c'
  assert step(TASK, ('a', 'b'), 'd') == 'a b d'
  assert started == ['one', 'one']


def test_what_is_dropped_is_closed_and_can_be_played_again():
  step, started, closed = counting(live=1)
  step(TASK, (), 'a')
  step(TASK._replace(id='two'), (), 'b')
  assert closed == [['a']]
  assert step(TASK, ('a',), 'c') == 'a c'
  assert started == ['one', 'two', 'one']


def test_a_game_that_raises_is_dropped():
  def act(game, action):
    game.append(action)
    if action == 'x':
      raise RuntimeError('broken')
    return len(game)

  step = replays.stepper(lambda task: [], act)
  step(TASK, (), 'a')
  with pytest.raises(RuntimeError):
    step(TASK, ('a',), 'x')
  assert step(TASK, ('a',), 'b') == 2


def test_threads_do_not_share_a_game():
  step, _, _ = counting(live=4)
  paths = [tuple(f'{i % 3}{j % (i + 1)}' for j in range(6)) for i in range(40)]

  def play(path):
    return [step(TASK, path[:i], path[i]) for i in range(len(path))]

  with concurrent.futures.ThreadPoolExecutor(8) as threads:
    found = list(threads.map(play, paths))
  for path, seen in zip(paths, found):
    assert seen == [' '.join(path[: i + 1]) for i in range(len(path))]


def test_a_missing_package_says_what_installs_it():
  with pytest.raises(ImportError, match='needs no_such_thing.*pip install x'):
    extras.load('no_such_thing', 'pip install x')
