"""What the benchmark of updates hands out, and how its lines are made."""

import json

import numpy as np

from benchmarks import samples, setups, step, updates
from benchmarks.sides import arl_step


def test_rows_have_a_prompt_and_a_sample():
  row = updates.Row('m', 4, 6, 16)
  made = updates.given(row, 'folder', 50)
  assert made['tokens'].shape == (4, 16) and made['tokens'].min() >= 3
  assert made['noise'].shape == (4, 10)
  assert row.name == 'step/m/4x16'


def test_lengths_are_spread_and_bounded():
  found = updates.lengths(1000, 256)
  assert found.min() >= 8 and found.max() == 256
  assert 55 < np.median(found) < 75


def test_packed_and_padded_are_one_update(tmp_path, compiled_once):
  del compiled_once
  folder, rows = samples.quickstart(tmp_path), arl_step.rows()
  given = {
    'folder': folder, 'lengths': updates.lengths(8, 32), 'width': 32,
  }  # fmt: skip
  made = []
  for kind in ('padded', 'packed'):
    work = rows[kind](given)
    made.append(work.outputs(work.call()))
  assert step.differs(*made) < 1e-4
  assert step.differs(made[0], {**made[1], 'loss': made[1]['loss'] + 1}) > 0.9


def test_a_missing_library_is_told_and_known_lines_are_not_measured(
  tmp_path, monkeypatch, capsys
):
  kept = tmp_path / 'lines'
  row = step._QUICK[0]
  known = samples.line(f'{row.name}/share_of_peak', 0.5, '', '')
  kept.write_text(json.dumps(known) + '\n')
  setup = setups.Setup({'trl': None, 'tunix': None}, None, True, kept)
  asked = []
  monkeypatch.setattr(step, 'peer', lambda *a: asked.append(a) or [])
  monkeypatch.setattr(step, 'memory', lambda *a: asked.append(a) or [])
  monkeypatch.setattr(step, 'packing', lambda *a: asked.append(a) or [])
  lines = step.everything(setup, tmp_path)
  assert len(asked) == len(step._POLICIES) + 1
  told = {line['name']: line.get('skipped') for line in lines}
  assert told[f'{row.name}/over_trl'] == 'no --trl_python'
  assert f'{row.name}/share_of_peak' in told
  assert 'no --tunix_python' in capsys.readouterr().out
