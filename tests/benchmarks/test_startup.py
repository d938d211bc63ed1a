"""Start-up is measured to the end of a step, and what ends before it fails."""

import json

import pytest

from benchmarks import startup


def test_what_was_measured_is_told_and_compared_with_its_aim(capsys):
  assert startup.tell('import', [0.5, 2.5, 0.75]) == [
    'import', '0.75 (0.50 to 2.50)', '<= 2', 'met',
  ]  # fmt: skip
  assert startup.tell('first_step/warm', [31.0])[-1] == 'missed'
  assert startup.tell('first_step/cold', [31.0])[-1] == ''
  told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
  assert [line['value'] for line in told] == [0.75, 31.0, 31.0]
  assert [line['interval'] for line in told] == [[0.5, 2.5], None, None]


def test_importing_takes_time():
  assert 0 < startup.imports() < 60


def test_a_run_that_ends_without_a_step_is_an_error(tmp_path):
  with pytest.raises(
    RuntimeError, match='(?s)ended with 2, too early:.*is no folder'
  ):
    startup.first_step(str(tmp_path / 'none'), tmp_path / 'run', quick=True)


def test_a_line_counts_when_it_is_whole(tmp_path):
  path = tmp_path / 'metrics.jsonl'
  assert not startup._stepped(path)
  path.write_text('{"step": 1')
  assert not startup._stepped(path)
  path.write_text('{"step": 1}\n')
  assert startup._stepped(path)
