"""What is measured of rollouts that run ahead, and the slow tools."""

import json
import time

import numpy as np
import pytest

from arl.envs import base
from benchmarks import pipeline, slow_tools

SLOW = {'max_hops': 1, 'guess': 0.5, 'fault': 0.0}


def test_two_batches_in_a_row_are_good_enough():
  success = np.array([0.2, 0.9, 0.7, 0.9, 0.9])
  assert pipeline.enough(success, 0.85) == 5
  assert pipeline.enough(success, 0.8) == 3
  assert pipeline.enough(success, 0.95) is None
  assert pipeline.enough(np.zeros(1), 0.0) is None
  assert pipeline.enough(np.zeros(2), 0.0) == 2


def seen(seconds, success):
  return pipeline.Seen(np.array(seconds), np.array(success), {
    'time/step': 2.0, 'ahead/age': 1.0, 'time/waited': 0.5,
  })  # fmt: skip


def test_the_plain_loop_is_reckoned_from_one_batch_of_it(tmp_path, capsys):
  made = {
    pipeline.PLAIN: seen([50.0], [0.1]),
    pipeline.OWN_PACE: seen([10.0, 20.0, 30.0], [0.1, 0.9, 0.9]),
    pipeline.AHEAD: seen([5.0, 6.0, 8.0, 9.0], [0.1, 0.2, 0.9, 0.9]),
  }
  plan = pipeline.Plan('', True, 0.85, tmp_path)
  took = pipeline.seconds_to(plan, made)
  assert took['own_pace'] == 30 and took['own_pace/batches'] == 3
  assert took['ahead'] == 9 and took['plain'] == 30 + 3 * 40
  body = pipeline.tell(plan, [made])
  lines = [json.loads(x) for x in capsys.readouterr().out.splitlines()]
  told = {line['name']: line for line in lines}
  assert told['pipeline/plain/ahead']['value'] == pytest.approx(150 / 9, 1e-3)
  assert told['pipeline/plain/ahead']['aim'] == pipeline.AIM
  assert told['pipeline/own_pace/ahead']['value'] == pytest.approx(3.3333)
  assert [row[0] for row in body] == ['plain', 'own_pace', 'ahead']
  assert body[0][-1] == '16.667, met' and body[0][3] == '50.0'
  pipeline.draw(made, tmp_path / 'drawn.png')
  assert (tmp_path / 'drawn.png').stat().st_size > 5000


def test_a_tool_takes_as_long_whoever_asks_and_held_out_no_time():
  slow = slow_tools.make(least=0.02, most=0.06, **SLOW)

  def seconds(split, index):
    state = slow.reset(slow.task(split, index))
    began = time.monotonic()
    slow.step(state, slow.oracle(state))
    return time.monotonic() - began

  times = [seconds(base.TRAIN, i) for i in range(6)]
  assert min(times) >= 0.02
  assert min(seconds(base.HELD_OUT, i) for i in range(3)) < 0.02
  drawn = [
    slow_tools._drawn(slow.reset(slow.task(base.TRAIN, i)), 'a')
    for i in range(200)
  ]
  again = slow_tools._drawn(slow.reset(slow.task(base.TRAIN, 0)), 'a')
  assert drawn[0] == again and 0 <= min(drawn) < 0.05 and 0.95 < max(drawn) < 1


@pytest.mark.parametrize('way', slow_tools.WAYS)
def test_the_ways_differ_in_nothing_else(way):
  configs = [
    slow_tools.get_config(f'way={name},model=m') for name in (way, 'own_pace')
  ]
  for config in configs:
    config.update_from_flattened_dict(
      {key: None for way in slow_tools.WAYS.values() for key in way}
    )
    config.engine.slots = 0
  assert configs[0] == configs[1]
