"""The sampler's benchmark: what is handed out, measured, told and kept."""

import json
import sys

import numpy as np
import pytest

from benchmarks import processes, sampler, samples, setups
from benchmarks.sides import arl_sampler

ROW = samples.Row('quickstart', 2, 8, 'uneven')


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  return samples.quickstart(tmp_path_factory.mktemp('model'))


def test_all_sides_are_handed_the_same(folder):
  made, again = (samples.given(ROW, folder, 102) for _ in range(2))
  assert made['prompts'].shape == (2, 32) and made['prompts'].min() >= 3
  assert made['lengths'].shape == (16,) and made['lengths'].max() == 8
  assert made['lengths'].min() >= 2
  np.testing.assert_array_equal(made['prompts'], again['prompts'])
  even = samples.given(ROW._replace(load='even'), folder, 102)
  assert set(even['lengths']) == {8}


def test_rows_have_names_of_their_own():
  for rows in (samples.ROWS, samples.QUICK):
    assert len({row.name for row in rows}) == len(rows)


def test_samples_of_a_worker_are_counted(folder, tmp_path):
  file = str(tmp_path / 'given.npz')
  np.savez(file, **samples.given(ROW, folder, 102))
  start = processes.start
  with start('arl_sampler', sys.executable, None, tmp_path) as worker:
    speeds = sampler.measure(ROW, {'arl': worker}, file, tmp_path, 2)
  assert len(speeds['arl']) == 2 and min(speeds['arl']) > 0


def test_greedily_all_prompts_go_on_in_their_own_way(folder, tmp_path):
  file, given = samples.checked(folder, 102, tmp_path)
  with np.load(file) as arrays:
    work = arl_sampler.rows()['greedy'](dict(arrays))
  tokens = work.outputs(work.call())['tokens']
  assert tokens.shape == (8, 8) and given['prompts'].shape == (8, 32)
  # Otherwise that others give the same would say little.
  assert len({tuple(row) for row in tokens.tolist()}) == 8
  assert len(np.unique(tokens)) > 30


def test_a_row_is_told_and_shown():
  speeds = {'arl': [30.0, 40.0, 50.0], 'tunix': [10.0, 10.0, 10.0]}
  lines = samples.told(samples.ROWS[0], speeds)
  by_name = {line['name']: line for line in lines}
  ratio = by_name['sampler/quickstart/1x8/even/over_tunix']
  assert (ratio['value'], ratio['interval']) == (4.0, [3.0, 5.0])
  (shown,) = samples.table(lines)
  assert shown == [
    'quickstart', '1 x 8', 'even', 'tunix', '40', '10',
    '4.00 (3.00 to 5.00)', '>= 3', 'met',
  ]  # fmt: skip


def test_what_is_missing_is_said_and_what_is_kept_is_kept(tmp_path, capsys):
  path = tmp_path / 'lines'
  kept = samples.told(samples.ROWS[0], {'arl': [3.0], 'tunix': [1.0]})
  path.write_text(''.join(json.dumps(line) + '\n' for line in kept))
  pythons = {'trl': None, 'tunix': None}
  setup = setups.Setup(pythons, None, False, path)
  lines = sampler.everything(setup, tmp_path)
  assert lines[: len(kept)] == kept
  skipped = [line['skipped'] for line in lines[len(kept) :]]
  assert skipped == ['no --trl_python', 'no --tunix_python'] * 2
  assert len(capsys.readouterr().out.splitlines()) == 4
  assert setup.known() == lines
