"""A run counts from the evaluation that is good enough, and ratios by seed."""

import json
import os
import sys

import pytest

from benchmarks import processes, quickstart


def test_only_whole_lines_of_that_name_count(tmp_path):
  path = tmp_path / 'metrics.jsonl'
  good = lambda: quickstart.reached(path, 'eval/sampled', 0.9)
  assert not good()
  path.write_text('{"step": 1}\n{"eval/sampled": 0.8}\n')
  assert not good()
  path.write_text('{"eval/sampled": 0.8}\n{"eval/sampled": 0.95')
  assert not good()
  path.write_text('{"eval/sampled": 0.8}\n{"eval/sampled": 0.95}\n')
  assert good()


def test_lines_with_and_without_the_other_library(capsys):
  ours = {'arl': 10.0, 'arl_cold': 20.0}
  body = quickstart.tell([{**ours, 'trl': 30.0}, {**ours, 'trl': 50.0}])
  assert [row[0] for row in body] == ['arl', 'arl_cold', 'trl', 'trl / arl']
  assert body[3][2] == '>= 2, met'
  told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
  assert [line['value'] for line in told] == [10.0, 20.0, 40.0, 4.0]
  assert quickstart.tell([ours]) == [
    ['arl', '10.000', ''], ['arl_cold', '20.000', ''], ['trl', 'skipped', ''],
  ]  # fmt: skip


def test_every_run_finds_what_the_warm_start_compiled(tmp_path, monkeypatch):
  kept = tmp_path / 'cache'
  kept.mkdir()
  (kept / 'program').touch()
  plan = quickstart.Plan('model', kept, 'model=model', 0.9, 1)
  seen = []

  def ours(plan, seed, folder, compiled):
    seen.append(sorted(path.name for path in compiled.iterdir()))
    (compiled / f'more_{seed}').touch()

  monkeypatch.setattr(quickstart, 'ours', ours)
  for seed in range(2):
    run = tmp_path / f'run_{seed}'
    run.mkdir()
    quickstart.after_warm_start(plan, seed, run)
  assert seen == [['program'], ['program']]


def until(path, code, limit=60.0):
  return processes.seconds_until(
    [sys.executable, '-c', code.format(path)],
    path.exists, path.with_name('log.txt'), dict(os.environ), limit,
  )  # fmt: skip


def test_a_command_is_killed_when_it_is_so(tmp_path):
  code = 'import time; open("{}", "w").close(); time.sleep(600)'
  assert 0 < until(tmp_path / 'done', code) < 60


@pytest.mark.parametrize(
  'code, limit, message',
  [
    ('print("no"); raise SystemExit(3)', 60.0, '(?s)ended with 3.*no'),
    ('import time; time.sleep(600)', 0.1, 'ran for 0.1 s, too early'),
  ],
)
def test_a_command_that_ends_before_is_an_error(tmp_path, code, limit, message):
  with pytest.raises(RuntimeError, match=message):
    until(tmp_path / 'done', code, limit)
