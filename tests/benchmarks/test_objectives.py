"""The lines and the table, without measuring."""

import json

import numpy as np
import pytest

from benchmarks import cases, machine, objectives, rounds

ROW = objectives.Outcome('gspo', (64, 1024), 'verl', '')
PLAN = rounds.Plan(rounds=3, seconds=0.1, repeats=1)


class Side:
  """A worker that gives these outputs, and takes this long."""

  def __init__(self, seconds, **outputs):
    self.seconds, self.outputs = seconds, outputs

  def ask(self, **request):
    if 'outputs' in request:
      np.savez(request['outputs'], **self.outputs)
    return self.seconds


def lines(capsys):
  return [json.loads(each) for each in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
  'value, aim, want',
  [
    (5, '>= 5', True),
    (4.9, '>= 5', False),
    (1.5, '<= 1.5', True),
    (1.6, '<= 1.5', False),
  ],
)
def test_aims(value, aim, want):
  assert machine.meets(value, aim) == want


def test_a_row_is_compared_then_timed(tmp_path, capsys):
  loss = np.float32(0.5)
  ours, theirs = Side(0.002, loss=loss), Side(0.012, loss=loss)
  made = objectives.measure_row(ROW, ours, theirs, tmp_path, PLAN)
  assert (made.verdict, round(made.ratio, 6)) == ('met', 6)
  difference, ratio, mine, other = lines(capsys)
  assert difference['name'] == 'objectives/gspo/64x1024/verl/difference'
  assert difference['value'] == 0
  assert ratio == {
    'name': 'objectives/gspo/64x1024/verl',
    'value': 6.0,
    'unit': 'x',
    'aim': '>= 5',
    'seeds': [cases.SEED],
    'interval': [6.0, 6.0],
  }
  assert (mine['value'], other['value']) == (2, 12)


def test_a_row_whose_outputs_differ_is_not_timed(tmp_path, capsys):
  ours, theirs = Side(1, loss=np.float32(0.5)), Side(9, loss=np.float32(0.6))
  made = objectives.measure_row(ROW, ours, theirs, tmp_path, PLAN)
  assert made.verdict == 'differs' and made.ratio is None
  (difference,) = lines(capsys)
  assert difference['value'] > 1e4


def test_pooling_is_measured_the_other_way_round(capsys):
  row = ROW._replace(row='sequence_mean', peer='plain')
  made = objectives.timed(row, [0.003] * 3, [0.002] * 3)
  assert made.ratio == pytest.approx(1.5) and made.aim == '<= 1.5'
  capsys.readouterr()


def test_what_is_missing_is_skipped_not_passed(capsys):
  made, versions = objectives.compare('verl', None)
  assert {each.verdict for each in made} == {'skipped'} and not versions
  said = lines(capsys)
  assert len(said) == len(made) == 12
  assert all(each['value'] is None for each in said)
  assert {each['skipped'] for each in said} == {'no --verl_python'}


def test_the_scan_has_an_aim_of_its_own():
  aims = {
    peer: ROW._replace(row='gae', peer=peer).aim for peer in ('verl', 'tunix')
  }
  assert aims == {'verl': '>= 50', 'tunix': '>= 1'}


def test_the_table_says_what_was_used(tmp_path, monkeypatch):
  monkeypatch.setattr(objectives, 'TABLE', tmp_path / 'objectives.md')
  done = ROW._replace(
    verdict='met', ours=0.2, theirs=1.3, ratio=6.5, interval=[6, 7]
  )
  skipped = ROW._replace(peer='trl', verdict='skipped')
  objectives.write([done, skipped], {'verl': {'torch': '2.13.0'}}, 0.25)
  text = objectives.TABLE.read_text()
  assert '- verl: torch 2.13.0' in text and 'load 0.25' in text
  assert '| gspo | 64 x 1024 | verl | 0.2 | 1.3 | 6.5 (6 to 7) | >= 5 |' in text
  assert '| gspo | 64 x 1024 | trl |  |  |  | >= 5 | skipped |' in text
