"""The study of scheduling: what it tells follows from how it routes."""

import math

import numpy as np
import pytest

from experiments.studies import scheduling


def test_a_wider_window_waits_less_and_takes_what_is_quick():
  seen = {w: [scheduling.waited(w, s) for s in range(8)] for w in (1, math.inf)}
  mean = lambda width, name: np.mean([one[name] for one in seen[width]])
  assert mean(1, 'idle') > 2 * mean(math.inf, 'idle')
  assert mean(1, 'distance') < mean(math.inf, 'distance')
  assert mean(1, 'reorder') == 0 < mean(math.inf, 'reorder')


def test_rollouts_ahead_are_faster_until_the_trainer_is_busy():
  seen = [scheduling.aged(lag, 0) for lag in (0, 1, 4, 8)]
  rates = [one['throughput'] for one in seen]
  assert rates[0] < rates[1] < rates[2]
  assert rates[3] < 8.0 and rates[3] - rates[2] < 0.05 * rates[2]
  assert [one['oldest'] for one in seen] == [0, 1, 4, 8]


@pytest.mark.parametrize('name', scheduling.ROUTES)
def test_caches_know_what_comes_back_to_them(name):
  made = scheduling.ROUTES[name]()
  seen = scheduling.routed(made, 0, tasks=40, concurrent=64)
  if name == 'by session':
    assert seen['hits'] == seen['whole'] == 1
    assert seen['imbalance'] < 1.3
  else:
    assert abs(seen['whole'] - 1 / 4) < 0.05
    assert seen['hits'] < 0.8


def test_lines_are_rows_of_the_table(monkeypatch, capsys):
  for name, value in (('WIDTHS', (4,)), ('LAGS', (1,)), ('ROUTES', {})):
    monkeypatch.setattr(scheduling, name, value)
  rows = list(scheduling.lines((0, 1)))
  assert len(rows) == 6
  assert all(len(row) == len(scheduling.HEADER) for row in rows)
  printed = capsys.readouterr().out.splitlines()
  assert '"name": "scheduling/window/4/idle"' in printed[0]
  assert len(printed) == 6
