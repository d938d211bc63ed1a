"""Groups on their way: none lost, none twice, none too old, none for ever."""

import json
import math

import hypothesis
import numpy as np
import pytest
import tiny
from hypothesis import strategies as st

from arl import episode
from arl.rollout import group_queue

GATE = group_queue.Gate(per_update=2, concurrent=3, lag=1)


def task(number):
  return episode.Task(f't{number}', 'a', {})


def episodes(version):
  one = tiny.episodes(1, 1)[0]
  told = np.where(one.mask, version, -1).astype(np.int32)
  return [one._replace(extras={'rollout_version': told})]


def through_json(queue):
  return group_queue.from_json(
    json.loads(json.dumps(group_queue.to_json(queue)))
  )


def test_groups_are_numbered_issued_finished_and_taken_in_order():
  queue = group_queue.choose(group_queue.opened(0), [task(i) for i in range(6)])
  queue, issued = group_queue.issue(queue, 0, GATE)
  assert [item.number for item in issued] == [0, 1, 2]
  assert all(item.began == 0 for item in issued)
  assert group_queue.issue(queue, 0, GATE)[1] == []
  for number in (2, 0):
    queue = group_queue.finish(queue, number, episodes(0))
  queue, more = group_queue.issue(queue, 0, GATE)
  assert [item.number for item in more] == [3]  # the gate: two updates of two
  queue, batch = group_queue.take(queue, 2)
  assert [item.number for item in batch] == [0, 2] and queue.updates == 1
  assert group_queue.issue(queue, 0, GATE)[1] == []
  assert [i.number for i in group_queue.issue(queue, 1, GATE)[1]] == [4]


def test_a_window_holds_back_what_is_beyond_it():
  queue = group_queue.choose(group_queue.opened(2), [task(i) for i in range(4)])
  queue, _ = group_queue.issue(queue, 0, GATE._replace(concurrent=9))
  for number in (1, 2, 3):
    queue = group_queue.finish(queue, number, episodes(0))
  assert [item.number for item in group_queue.take(queue, 2)[1]] == [1]
  queue = group_queue.finish(queue, 0, episodes(0))
  assert [item.number for item in group_queue.take(queue, 2)[1]] == [0, 1]


def test_what_is_too_old_is_given_up_and_holds_up_nothing():
  queue = group_queue.choose(group_queue.opened(1), [task(i) for i in range(3)])
  queue, _ = group_queue.issue(queue, 0, GATE)
  queue = group_queue.finish(queue, 1, episodes(1))
  queue = group_queue.finish(queue, 2, episodes(0))
  queue, old = group_queue.drop(queue, 2, 1)
  assert [item.number for item in old] == [0, 2]  # it runs; it was sampled
  assert [item.number for item in group_queue.take(queue, 1)[1]] == [1]
  late = group_queue.finish(queue, 0, episodes(2))
  assert late == queue


def test_a_checkpoint_holds_all_and_what_ran_is_issued_again():
  queue = group_queue.choose(group_queue.opened(3), [task(i) for i in range(5)])
  queue, _ = group_queue.issue(queue, 0, GATE)
  queue = group_queue.finish(queue, 1, episodes(0))
  queue, _ = group_queue.take(queue, 1)
  queue = group_queue.finish(queue, 2, episodes(0))
  back = through_json(queue)
  assert back.window == queue.window and back.chosen == 5 and back.updates == 1
  assert list(back.items) == [0, 2, 3, 4]
  assert [item.number for item in back.pending()] == [0, 3, 4]
  (kept,) = back.finished()
  tiny.same(kept.episodes[0].extras, queue.items[2].episodes[0].extras)
  assert kept.began == 0 and not back.running()


@hypothesis.given(st.data())
@hypothesis.settings(max_examples=60, deadline=None)
def test_any_schedule_trains_on_each_once_within_the_bound(data):
  """Random ends, failures of nothing, kills between any two updates."""
  width = data.draw(st.sampled_from([0, 1, 3, 8]))
  lag = data.draw(st.integers(0, 3))
  gate = group_queue.Gate(2, data.draw(st.integers(1, 9)), lag)
  queue, trained, dropped = group_queue.opened(width), [], []
  saved = queue, 0, 0
  version, most = 0, 0
  for _ in range(data.draw(st.integers(1, 12))):
    queue, old = group_queue.drop(queue, version, lag)
    dropped += [item.number for item in old]
    while len((made := group_queue.take(queue, 2))[1]) < 2:
      if not queue.pending():
        tasks = [task(queue.chosen + i) for i in range(2)]
        queue = group_queue.choose(queue, tasks)
      queue, _ = group_queue.issue(queue, version, gate)
      running = queue.running()
      assert running, 'a deadlock'
      ends = data.draw(st.sampled_from(running))
      queue = group_queue.finish(queue, ends.number, episodes(ends.began))
      most = max(most, len(queue.finished()) + len(queue.running()))
    queue, batch = made
    ages = [version - item.oldest() for item in batch]
    assert all(0 <= age <= lag for age in ages)
    trained += [item.number for item in batch]
    version += 1
    queue, _ = group_queue.issue(queue, version, gate)
    assert queue.updates == version
    if data.draw(st.booleans()):
      saved = queue, len(trained), len(dropped)
    elif data.draw(st.booleans()):
      queue, known, gone = saved
      queue = through_json(queue)
      trained, dropped = trained[:known], dropped[:gone]
      version = queue.updates
  assert most <= (lag + 1) * 2
  numbers = [*trained, *dropped, *queue.items]
  assert sorted(numbers) == list(range(queue.chosen))


def test_a_window_has_a_width():
  assert group_queue.opened(0).window.width == math.inf
  with pytest.raises(ValueError, match='window: the width is -1'):
    group_queue.opened(-1)
