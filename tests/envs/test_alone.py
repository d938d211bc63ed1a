"""One training task, whatever the index; held out all there are."""

import pytest

from arl.envs import alone, base, tools

TOOLS = {'name': 'tools.make', 'max_hops': 1}


def test_every_training_task_is_the_one_and_what_is_held_out_stays():
  whole, one = tools.make(max_hops=1), alone.make(env=TOOLS, task=5)
  for index in (0, 5, 9):
    assert one.task(base.TRAIN, index) == whole.task(base.TRAIN, 5)
    assert one.task(base.HELD_OUT, index) == whole.task(base.HELD_OUT, index)
  task = one.task(base.TRAIN, 0)
  played = base.play(one, task, one.oracle, 5)
  assert sum(x.turn.reward for x in played) == 1


def test_refusals():
  with pytest.raises(ValueError, match='task is -1'):
    alone.make(env=TOOLS, task=-1)
  with pytest.raises(ValueError, match='env needs a name'):
    alone.make(env={}, task=0)
