"""The sides of the benchmark do the same, and its lines say what was seen."""

import json

import numpy as np

from arl.models import sizes
from arl.train import prefixes
from benchmarks import shared_prefix

SIZE = sizes.tiny(32)._replace(layers=1)


def test_both_sides_take_the_same_step(monkeypatch, compiled_once):
  del compiled_once
  monkeypatch.setattr(shared_prefix, 'TURN', 8)
  monkeypatch.setattr(prefixes, 'BLOCK', 8)
  seen = shared_prefix.measure(SIZE, 3, 2)
  assert seen['difference'] < 1e-4
  assert seen['unique'] <= seen['computed'] < 0.7
  memory = seen['megabytes']
  assert 0 < memory[prefixes.SHARED] < memory[prefixes.OWN]
  for times in seen['seconds'].values():
    assert len(times) == 2 and all(one['time'] > 0 for one in times)


def test_branches_share_ten_turns():
  made = shared_prefix.branches(4, 32)
  history = shared_prefix.TURNS * shared_prefix.TURN
  first = [one.tokens[:history].tolist() for one in made]
  assert all(tokens == first[0] for tokens in first)
  assert len({tuple(one.tokens[history:].tolist()) for one in made}) == 4
  assert all(one.mask[history:].all() and not one.mask[0] for one in made)


def test_lines(capsys):
  took = lambda *seconds: [{'time': x, 'processor': 0.9 * x} for x in seconds]
  seen = {
    'seconds': {
      prefixes.OWN: took(4.0, 2.0, 2.0),
      prefixes.SHARED: took(1.0, 0.5, 0.5),
    },
    'megabytes': {prefixes.OWN: 8.0, prefixes.SHARED: 2.0},
    'unique': 0.2,
    'computed': 0.21,
  }
  row = shared_prefix.tell('x', seen)
  told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
  lines = {line['name']: line for line in told}
  np.testing.assert_allclose(lines['x/own']['value'], 2000)
  assert lines['x/time']['value'] == lines['x/processor']['value'] == 1.25
  assert lines['x/time']['aim'] == '<= 1.2'
  assert row.count('1.25 (1.25 to 1.25), missed') == 2
