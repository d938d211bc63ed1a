"""Time by part: threads side by side count once, and nothing twice."""

import collections
import threading
import time

import pytest
import tiny

from arl import episode
from arl.rollout import engine as engine_lib
from arl.train import clock


def test_parts_and_the_rest_fill_a_step():
  timer = clock.Clock()
  timer.read()
  with timer.during(clock.SAMPLING):
    time.sleep(0.05)
  with timer.during(clock.UPDATE):
    time.sleep(0.02)
  time.sleep(0.01)
  told = timer.read()
  shares = {n: x for n, x in told.items() if n.startswith('share/')}
  assert sum(shares.values()) == pytest.approx(1)
  assert told['share/sampling'] > told['share/update'] > 0
  assert told['share/environment'] == told['share/scoring'] == 0
  assert told['share/waiting'] > 0 and told['time/step'] >= 0.08
  assert timer.read()['share/sampling'] == 0


def test_threads_that_wait_side_by_side_count_once():
  timer = clock.Clock()
  timer.read()
  ready = threading.Barrier(4)

  def wait():
    ready.wait()
    with timer.during(clock.ENVIRONMENT):
      time.sleep(0.1)

  threads = [threading.Thread(target=wait) for _ in range(4)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  told = timer.read()
  assert 0 < told['share/environment'] <= 1


def test_an_error_ends_the_time_of_its_part():
  timer = clock.Clock()
  with pytest.raises(KeyError), timer.during(clock.UPDATE):
    raise KeyError
  timer.read()
  time.sleep(0.01)
  assert timer.read()['share/update'] == 0


def test_a_world_is_what_it_was_and_is_counted():
  class Slow:
    compiled = 3

    def generate(self, requests, sampling):
      time.sleep(0.02)
      return [len(requests), sampling]

  env = tiny.letters()
  slow = env._replace(
    step=lambda state, text: time.sleep(0.01) or (state, text)
  )

  world = collections.namedtuple('World', 'engine env')(Slow(), slow)
  timer = clock.Clock()
  made = clock.timed(world, timer)
  timer.read()
  sampling = engine_lib.Sampling()
  assert made.engine.generate([1, 2], sampling) == [2, sampling]
  assert made.engine.compiled == 3
  state = made.env.reset(episode.Task('t', '', {'answer': 'a'}))
  assert made.env.step(state, 'b') == (state, 'b')
  told = timer.read()
  assert told['share/sampling'] > 0 and told['share/environment'] > 0
