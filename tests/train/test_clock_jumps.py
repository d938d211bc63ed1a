"""A time of day that jumps changes no run, and no duration."""

import random
import time

import pytest
import tiny

from arl.train import loop, metrics

pytestmark = pytest.mark.usefixtures('compiled_once')


def train(model, folder):
  config = tiny.config(model, steps=2)
  config.eval.update(every=2, tasks=1, final_tasks=1)
  config.checkpoint.update(every=1)
  return loop.train(config, folder)


def test_a_run_under_a_clock_that_jumps_is_the_run(
  model_folder, tmp_path, monkeypatch
):
  calm = train(model_folder, tmp_path / 'calm')
  rng, now, looks = random.Random(0), time.time, []

  def jumping():
    looks.append(rng.uniform(-12, 12) * 3600)
    return now() + looks[-1]

  monkeypatch.setattr(time, 'time', jumping)
  began = time.monotonic()
  tiny.same(train(model_folder, tmp_path / 'torn'), calm)
  took = time.monotonic() - began
  monkeypatch.undo()
  assert looks  # libraries look at it, for time stamps
  assert tiny.rows(tmp_path / 'torn') == tiny.rows(tmp_path / 'calm')
  rows = metrics.read(tmp_path / 'torn')
  assert [row['step'] for row in rows] == [1, 2]
  assert 0 < rows[0]['wall'] < rows[1]['wall'] < took
  spans = [x for r in rows for k, x in r.items() if k.startswith('time/')]
  assert spans and all(0 <= x < took for x in spans)
