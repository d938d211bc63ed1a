"""`python -m experiments.results`: claims, costs, tables and figures."""

import json
import pathlib

import numpy as np
import pytest
import tiny

from arl import episode
from arl.evaluate import over_runs
from experiments import results
from experiments.studies import (
  baselines,
  claims,
  comparing,
  reaching,
  runs,
  summary,
)


def rows(success, tokens=2.0, wall=1.0):
  return [
    {
      'step': i,
      'wall': wall * i,
      'train/success': value,
      'train/tokens': tokens,
      'train/graded': 10,
    }
    for i, value in enumerate(success, 1)
  ]


def claim(**changed):
  made = claims.Claim(0.9, (0.85, 0.95), 30.0, (0, 1, 2), 'abc', 'a machine')
  return made._replace(**changed)


# Claims.


def test_what_a_rerun_says_of_a_claim():
  assert claims.verdict(None, claim()) == claims.NEW
  assert claims.verdict(claim(), claim(success=0.851)) == claims.HOLDS
  assert claims.verdict(claim(), claim(success=0.95)) == claims.HOLDS
  for success in (0.849, 0.951):
    assert claims.verdict(claim(), claim(success=success)) == claims.BROKEN
  for changed in ({'of': 'abd'}, {'seeds': (0, 1, 2, 3)}):
    assert claims.verdict(claim(), claim(success=0, **changed)) == claims.NEW


def test_claims_are_read_as_they_were_written(tmp_path):
  path = tmp_path / 'claims.json'
  assert claims.read(path) == {}
  made = {'dapo': claim(), 'grpo': claim(success=0.8)}
  claims.write(made, path)
  assert claims.read(path) == made
  assert list(json.loads(path.read_text())) == ['grpo', 'dapo']


def test_a_claim_in_a_docstring():
  text = 'A title.\n\nReaches: not run yet.\n\nReaches no second line.\n'
  new = claims.rewritten(text, claim())
  line = 'Reaches 0.900 (0.850 to 0.950) in 30 seconds a run.'
  assert new.splitlines()[2] == line
  assert claims.rewritten(new, None) == text
  with pytest.raises(ValueError, match="no line 'Reaches'"):
    claims.rewritten('A title.', claim())


def test_what_a_file_says_decides_its_hash(monkeypatch):
  before = claims.digest('gspo')
  assert before == claims.digest('gspo') != claims.digest('gmpo')
  monkeypatch.setitem(baselines.module('gspo').METHOD, 'low', 0.1)
  assert claims.digest('gspo') != before


# What it costs to succeed.


def test_success_over_batches_in_a_row():
  assert reaching.running(rows([1, 0, 0.5, 0.5, 0.0])) == [
    1, 0.5, 0.5, 0.5, 0.25
  ]  # fmt: skip


def test_where_enough_is_reached():
  made = rows([1, 1, 1, 0, 0.8, 1, 1, 0.9], tokens=3.0, wall=2.0)
  # The first three are too few, and the fourth ends four with a mean of 3/4.
  assert reaching.reached(made[:6], 0.8) is None
  assert reaching.reached(made, 0.8) == (8 * 30, 16.0)
  assert reaching.reached(rows([0.8] * 4), 0.8) == (80, 4.0)


def test_costs_are_medians_in_which_never_is_last():
  soon, late, never = rows([0.9] * 6), rows([0] * 2 + [1] * 6), rows([0.1] * 6)
  assert comparing.cost([soon, soon, never]) == (80, 4)
  assert comparing.cost([never, late, soon]) == (120, 6)
  assert comparing.cost([never, never, soon]) == (None, None)


def test_a_learning_curve_is_a_mean_between_seeds():
  line = comparing.learning([rows([0.0, 0.0]), rows([0.5, 1.0])])
  assert line.x == [1, 2]
  for got, want in zip(line[1:], ([0.25, 0.375], [0, 0], [0.5, 0.75])):
    assert got == pytest.approx(want)


@pytest.mark.parametrize(
  'least, start', [(0, 0), (50, 0.4), (57, 0.4), (100, 0.9)]
)
def test_thresholds_begin_below_the_least_score(least, start):
  found = over_runs.outcomes([[100, 100]], [[least, 100]])
  at = comparing.thresholds({'one': found})
  assert at[0] == pytest.approx(start) and at[-1] == 1 and len(at) == 101


def test_episodes_are_counted_by_kind():
  task = lambda records, calls: episode.Task(
    'x', 'x', {'records': records, 'plan': ['call'] * calls}
  )
  kinds = [task({}, 1), task({'a': 1}, 1), task({'a': 1}, 3)]
  one = tiny.episodes(1, 1)[0]
  earned = lambda reward: np.full(1, reward, np.float32)
  made = [
    one._replace(task=kinds[0], rewards=earned(1.0)),
    one._replace(task=kinds[0], rewards=earned(0.0)),
    one._replace(task=kinds[1], rewards=earned(1.0)),
    one._replace(
      task=kinds[1], rewards=earned(1.0), status=episode.ENVIRONMENT_ERROR
    ),
    one._replace(task=kinds[2], rewards=earned(0.5)),
  ]
  assert baselines.count(made) == {
    'sum': [2, 1], 'look-up': [1, 1], 'one pointer': [0, 0],
    'two pointers': [1, 0],
  }  # fmt: skip


# The command.


def finish(run, success):
  """Writes what a run of 100 tasks leaves that the command reads."""
  run.workdir.mkdir(parents=True, exist_ok=True)
  at = {'sampled': {'graded': 100, 'success': success}}
  told = {
    'after': at, 'wall_seconds': 20.0, 'versions': {'jax': '1'},
    'config_hash': run.workdir.name,
  }  # fmt: skip
  (run.workdir / 'results.json').write_text(json.dumps(told))
  lines = [json.dumps(row) + '\n' for row in rows([success] * 5)]
  (run.workdir / 'metrics.jsonl').write_text(''.join(lines))
  solved = {name: [20, round(20 * success)] for name in baselines.KINDS}
  (run.workdir / 'by_kind.json').write_text(json.dumps(solved))


@pytest.fixture
def desk(tmp_path, monkeypatch):
  """The command over runs and results of its own; nothing is trained."""
  monkeypatch.setattr(runs, 'root', lambda: tmp_path)
  monkeypatch.setattr(runs, 'quick', lambda: False)
  monkeypatch.setattr(runs, 'seeds', lambda: (0, 1, 2))
  monkeypatch.setattr(runs, 'make', lambda made: None)
  monkeypatch.setattr(runs, 'RESULTS', tmp_path)
  monkeypatch.setattr(comparing, 'CURVES', tmp_path / 'curves')
  monkeypatch.setattr(claims, 'FILE', tmp_path / 'claims.json')
  monkeypatch.setattr(summary, '_PAGE', tmp_path / 'RESULTS.md')
  told = []
  monkeypatch.setattr(claims, 'tell', lambda kept, names: told.append(kept))
  monkeypatch.setattr(results, '_chosen', lambda: baselines.NAMES)
  for seed in range(3):
    finish(runs.Run('', '', tmp_path / f'sft_seed{seed}'), 0.3)
  return tmp_path, told


def finish_all(root, names, success=0.9):
  for name in names:
    for seed in range(3):
      finish(baselines.trained(root, name, seed, False), success)


def verdicts(root):
  table = (root / 'baselines.md').read_text().splitlines()
  cells = [line.split(' | ') for line in table if line.startswith('| ')][2:]
  return {cell[1]: cell[5] for cell in cells}


def test_the_command_writes_claims_and_then_holds_them(desk, capsys):
  root, told = desk
  finish_all(root, ('grpo', 'dapo', 'gspo'))
  results.main([])
  assert verdicts(root) == dict.fromkeys(('grpo', 'dapo', 'gspo'), 'new')
  lines = [json.loads(x) for x in capsys.readouterr().out.splitlines()]
  assert [x['name'] for x in lines[:6]] == [
    f'results/grpo/{what}'
    for what in ('success', 'kinds', 'better', 'tokens', 'seconds', 'wall')
  ]
  assert lines[0]['value'] == 0.9 and lines[2]['value'] == 0.5
  assert lines[3]['value'] == 80 and lines[5]['value'] == 20
  claimed = claims.read(claims.FILE)
  assert set(claimed) == {'grpo', 'dapo', 'gspo'} == set(told[0])
  page = (root / 'RESULTS.md').read_text()
  for name in claimed:
    assert (root / 'curves' / f'{name}.png').read_bytes()[:4] == b'\x89PNG'
  for name in ('success', 'improvement', 'profiles', 'curves'):
    assert (root / f'baselines_{name}.png').read_bytes()[:4] == b'\x89PNG'
    assert f'(results/baselines_{name}.png)' in page
  assert 'Not run yet: dr_grpo, cispo, ' in page
  assert '[arXiv:2402.03300](https://arxiv.org/abs/2402.03300)' in page
  results.main([])
  assert verdicts(root) == dict.fromkeys(('grpo', 'dapo', 'gspo'), 'holds')
  assert claims.read(claims.FILE) == claimed


def test_a_broken_claim_is_said_and_stays(desk, capsys):
  root, told = desk
  finish_all(root, ('grpo', 'dapo'))
  results.main([])
  before = claims.read(claims.FILE)
  finish_all(root, ('dapo',), success=0.5)
  with pytest.raises(SystemExit) as error:
    results.main([])
  assert str(error.value) == '1 of 2 claims do not hold.'
  said = capsys.readouterr().err
  assert 'BROKEN CLAIM: dapo reached 0.500, which is outside of 0.8' in said
  assert claims.read(claims.FILE) == before == told[-1]
  assert verdicts(root) == {'grpo': 'holds', 'dapo': 'broken'}


def test_where_nothing_is_finished_the_table_stays(desk, capsys):
  root, _ = desk
  (root / 'baselines.md').write_text('as it was\n')
  results.main([])
  assert 'GRPO is not finished' in capsys.readouterr().err
  assert 'as it was' in (root / 'RESULTS.md').read_text()
  assert not pathlib.Path(claims.FILE).exists()
