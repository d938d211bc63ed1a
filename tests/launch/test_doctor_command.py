"""What the doctor prints of a folder, and what it exits with."""

import json

import pytest

from arl.evaluate import limits
from experiments import common
from launch import doctor

ROW = {
  'wall': 1.0, 'train/reward': 0.4, 'train/success': 0.4, 'train/entropy': 0.5,
  'groups/mixed': 0.6, 'groups/solved': 0.2, 'groups/unsolved': 0.2,
  'groups/varied': 0.6, 'groups/std': 0.4, 'length/truncated': 0.0,
  'audit/unsampled': 0,
}  # fmt: skip
SAMPLE = {
  'step': 6, 'task': 'a', 'status': 'finished', 'reward': 1.0, 'cut': False,
  'exchanges': [{'action': '=4', 'answer': '', 'reward': 1.0, 'valid': True}],
  'pieces': ['b?', '=4', '<|end|>'], 'mask': [0, 1, 1], 'turn': [0, 0, 0],
  'logp': [0.0, -1.0, -0.1], 'old_logp': [0.0, -1.0, -0.1],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
  def write(**changed):
    rows = [{'step': i, **ROW, **changed} for i in range(1, 9)]
    lines = ''.join(json.dumps(row) + '\n' for row in rows)
    (tmp_path / 'metrics.jsonl').write_text(lines)
    (tmp_path / 'config.json').write_text(json.dumps(common.base().to_dict()))
    (tmp_path / 'samples.jsonl').write_text(json.dumps(SAMPLE) + '\n')
    return tmp_path

  return write


def test_a_quiet_run_exits_with_0_and_reads_without_color(folder, capsys):
  assert doctor.examine(folder(), False) == 0
  said = capsys.readouterr().out
  assert '\x1b' not in said and '!!' not in said
  assert max(map(len, said.splitlines())) <= 80
  for number in range(8):
    assert f' {number} ' in said
  assert 'b?[[=4<|end|>]]' in said


def test_what_trips_is_told_with_settings_and_exits_with_1(folder, capsys):
  cut = {'length/truncated': 0.4, 'groups/mixed': 0.1, 'groups/varied': 0.1}
  assert doctor.examine(folder(**cut), False) == 1
  said = ' '.join(capsys.readouterr().out.split())
  assert '!! [3] truncation: 40% of the episodes are cut off' in said
  assert 'look at: rollout.turn_tokens, rollout.response_tokens' in said
  assert 'follows from truncation: what is cut off earns nothing' in said


def test_json_is_an_object_a_line(folder, capsys):
  assert doctor.examine(folder(**{'length/truncated': 0.4}), True) == 1
  facts = [json.loads(x) for x in capsys.readouterr().out.splitlines()]
  checks = [x['number'] for x in facts if x['kind'] == 'check']
  assert checks == list(range(8))
  signs = {x['name']: x for x in facts if x['kind'] == 'sign'}
  assert signs['truncation']['state'] == 'trips'
  assert signs['truncation']['number'] == 3
  assert signs['truncation']['steps'] == [6, 8]


def test_no_run_exits_with_2_and_says_why(tmp_path, capsys):
  assert doctor.examine(tmp_path, False) == 2
  assert 'no metrics.jsonl' in capsys.readouterr().err
  (tmp_path / 'metrics.jsonl').write_text('nothing\n')
  (tmp_path / 'config.json').write_text('{}')
  assert doctor.examine(tmp_path, False) == 2
  assert 'line 1' in capsys.readouterr().err


def test_limits_are_listed_with_their_sources():
  lines = doctor.table().splitlines()
  assert len(lines) == len(limits.LIMITS)
  assert any('truncated' in x and '0.1' in x and 'survey' in x for x in lines)
