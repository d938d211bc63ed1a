"""The report of what is compiled: its lines, its page and its figures."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from arl.train.aot import cases, figures, grid, page, results

ROOT = pathlib.Path(__file__).parents[2]


def made(case: cases.Case, **changes) -> results.Result:
  """A result that nothing was compiled for."""
  plain = results.Result(
    case,
    flops=1e12,
    bytes=2e9,
    sent={'all-gather': 3e9, 'all-reduce': 1e9},
    chain=100.0,
    memory={'arguments': 2.0**30, 'outputs': 0.0, 'temporaries': 2.0**30},
    compiled=(1, 3),
    seconds=5.0,
  )
  return plain._replace(**changes)


CASE = cases.Case(cases.TRAIN, '8B', 'v5e', cases.mesh(fsdp=8), 2, 2048)


def test_a_line_says_what_bounds_a_step():
  told = page.numbers(made(CASE))
  assert told['name'] == 'train 8B v5e-8 fsdp8 2x2048'
  assert told['layers'] == 36 and told['compiled_layers'] == '1,3'
  assert told['sent_bytes'] == 4e9 and told['sent_all_gather'] == 3e9
  assert told['limit'] == 'network' and told['fits'] is True
  assert told['seconds_least'] == pytest.approx(4e9 / 200e9)
  assert told['seconds_most'] == pytest.approx(
    1e12 / 197e12 + 2e9 / 819e9 + 4e9 / 200e9
  )
  tokens = 2 * 2 * 2048 / told['seconds_least']
  assert told['tokens_per_chip_second_most'] == pytest.approx(tokens)


def test_fake_devices_have_no_times():
  told = page.numbers(made(CASE._replace(target='cpu')))
  assert 'seconds_least' not in told and 'fits' not in told
  assert told['flops'] == 1e12


def test_what_is_too_large_does_not_fit():
  large = made(CASE, memory={'temporaries': 17.0 * 2**30})
  assert page.numbers(large)['fits'] is False
  assert '| no, 16 |' in page.costs([large])


def test_a_failure_is_told_in_its_row():
  failed = results.Result(CASE, error='not compiled within 9 s')
  assert page.numbers(failed)['error'] == 'not compiled within 9 s'
  assert '| not compiled within 9 s |' in page.costs([failed])
  assert page.compared([failed]).count('\n') == 1


@pytest.mark.parametrize('tpu', [True, False])
@pytest.mark.parametrize('make', [grid.full, grid.quick])
def test_the_report_has_all_its_parts(tpu, make, tmp_path):
  report = make(tpu)
  every = report.every()
  assert len(every) == len(set(every))
  for case in every:
    cases.check(case)
    assert (case.target == 'cpu') == (not tpu)
  found = {case: made(case) for case in every}
  found[every[0]] = results.Result(every[0], error='not yet')
  text = page.write(report, found, tmp_path).read_text()
  assert '<!--' not in text
  for case in every:
    assert f'| {case.target}-{case.chips} | {page.layout(case)} |' in text
  assert ('libtpu was not there' in text) == (not tpu)


def test_weak_scaling_has_as_many_tokens_on_every_chip():
  report = grid.full(True)
  each = {case.tokens / case.chips for case in report.scaling}
  assert each == {2 * 2 * 2048}
  for model, chips in grid.CHIPS.items():
    assert [c.chips for c in report.scaling if c.model == model] == [*chips]
    assert chips[0] == 8 and chips[-1] == 256
  for part in (report.layouts, report.lengths):
    assert {c.tokens / c.chips for c in part} == {2 * 2 * 2048}
    assert {c.chips for c in part} == {64}


def test_figures_are_drawn_where_there_are_times(tmp_path):
  points = [(8.0, made(CASE)), (16.0, made(CASE, flops=2e12))]
  file = tmp_path / 'a.png'
  assert figures.draw({'8B': points}, 'chips', file)
  assert file.read_bytes().startswith(b'\x89PNG')
  fake = [(8.0, made(CASE._replace(target='cpu')))]
  assert not figures.draw({'8B': fake}, 'chips', tmp_path / 'b.png')


def run(*flags: str, folder: pathlib.Path) -> subprocess.CompletedProcess:
  return subprocess.run(
    [sys.executable, 'launch/aot.py', f'--workdir={folder}', *flags],
    cwd=ROOT, capture_output=True, text=True, timeout=600,
    env={**os.environ, 'JAX_PLATFORMS': 'cpu'},
  )  # fmt: skip


def test_the_command_compiles_a_named_case(tmp_path):
  naming = (
    '--programs=decode', '--models=tiny', '--target=cpu', '--chips=2',
    '--mesh=data=2', '--rows=2', '--length=32',
  )  # fmt: skip
  done = run(*naming, folder=tmp_path)
  assert not done.returncode, done.stderr
  line = next(x for x in done.stdout.splitlines() if x.startswith('{'))
  told = json.loads(line)
  assert told['name'] == 'decode tiny cpu-2 data2 2x32'
  assert told['flops'] > 0 and told['flops_to_model'] < 1.5
  assert list(tmp_path.glob('decode-tiny-cpu-*.json'))


def test_a_mesh_of_other_devices_is_refused(tmp_path):
  done = run('--chips=8', '--mesh=fsdp=4', folder=tmp_path)
  assert done.returncode
  assert '--mesh has 4 devices, --chips says 8' in done.stderr
