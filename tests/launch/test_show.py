import json

import pytest
import rich.console

from launch import show

RATE = {'success': 0.25, 'success_low': 0.125, 'success_high': 0.5}
BETTER = {'success': 0.75, 'success_low': 0.7, 'success_high': 0.8}
RESULTS = {
  'before': {'sampled': RATE, 'greedy': RATE},
  'after': {'sampled': BETTER, 'greedy': RATE},
  'wall_seconds': 61.4,
}


def test_an_estimate_has_its_interval():
  assert show.estimate(RATE) == '0.250 [0.125, 0.500]'


def test_before_and_after_stand_in_one_row(tmp_path):
  (tmp_path / 'results.json').write_text(json.dumps(RESULTS))
  console = rich.console.Console(width=120, record=True)
  console.print(show.table({'mine': show.read(tmp_path)}))
  rows = [line.split('  ') for line in console.export_text().splitlines()]
  cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
  low, high = '0.250 [0.125, 0.500]', '0.750 [0.700, 0.800]'
  assert ['mine', 'sampled', low, high, '61'] in cells
  assert ['mine', 'greedy', low, low, '61'] in cells


def test_an_unfinished_run_says_what_to_do(tmp_path):
  with pytest.raises(FileNotFoundError, match='the command that began it'):
    show.read(tmp_path)
