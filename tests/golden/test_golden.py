"""The golden numbers of other libraries, and the script that checks them."""

import json
import pathlib
import sys
import types

import check
import numpy as np
import policy_rows
import pytest
import worked_agentic
import worked_choosing
import worked_evaluation
import worked_scheduling
import worked_tables

FOLDER = pathlib.Path(__file__).parent
POLICY = FOLDER / 'policy_verl_0_9_1.npz'
PAIRS = FOLDER / 'preference_trl_1_16.npz'
AGENTIC = FOLDER / 'worked_agentic.json'
WORKED = FOLDER / 'worked_policy.json'
PREFERENCE = FOLDER / 'worked_preference.json'
DISTILLATION = FOLDER / 'worked_distillation.json'
SUPERVISED = FOLDER / 'worked_supervised.json'
CRITICS = FOLDER / 'worked_critics.json'


def _lines(out):
  """{key: verdict} of what the script printed."""
  fields = [line.split() for line in out.splitlines()[:-1]]
  return {first: last for first, *_, last in fields}


def _copy(folder, change):
  """A copy of the policy file after `change(arrays)`, with its settings."""
  arrays = dict(np.load(POLICY))
  change(arrays)
  path = folder / 'copy.npz'
  np.savez(path, **arrays)
  path.with_suffix('.json').write_text(POLICY.with_suffix('.json').read_text())
  return path


def _keep(*names):
  def change(arrays):
    for key in [k for k in arrays if k.startswith('out/')]:
      if key.removeprefix('out/') not in names:
        del arrays[key]

  return change


def test_all_of_the_policy_file_agrees(capsys):
  assert check.main(['check', str(POLICY)]) == 0
  verdicts = _lines(capsys.readouterr().out)
  results = [name for name in np.load(POLICY).files if name[:4] == 'out/']
  assert verdicts == {name.removeprefix('out/'): 'ok' for name in results}


def test_all_of_the_pairs_agree(capsys):
  assert check.main(['check', str(PAIRS)]) == 0
  verdicts = _lines(capsys.readouterr().out)
  results = [name for name in np.load(PAIRS).files if name[:4] == 'out/']
  assert verdicts == {name.removeprefix('out/'): 'ok' for name in results}


def test_a_pair_that_differs_is_a_mismatch(tmp_path, capsys):
  arrays = {n: x for n, x in np.load(PAIRS).items() if 'gjsd' not in n}
  changed = 'losses/dpo', 'grad_chosen/simpo', 'grad_rejected/ipo_summed'
  for key in changed:
    arrays['out/' + key] = arrays['out/' + key] + 2e-6
  path = tmp_path / 'pairs.npz'
  np.savez(path, **arrays)
  settings = str(PAIRS.with_suffix('.json'))
  assert check.main(['check', str(path), settings]) == 1
  verdicts = _lines(capsys.readouterr().out)
  assert {k for k, v in verdicts.items() if v != 'ok'} == set(changed)


def test_all_of_the_examples_of_preferences_agree(capsys):
  assert check.main(['check', str(PREFERENCE)]) == 0
  verdicts = _lines(capsys.readouterr().out)
  keys = json.loads(PREFERENCE.read_text()).keys()
  assert verdicts == dict.fromkeys(keys, 'ok')


def test_all_of_the_worked_examples_agree(capsys):
  assert check.main(['check', str(WORKED)]) == 0
  verdicts = _lines(capsys.readouterr().out)
  assert verdicts.keys() == json.loads(WORKED.read_text()).keys()
  assert {k for k, v in verdicts.items() if v != 'ok'} == {'swerl.sim'}
  assert verdicts['swerl.sim'] == 'elsewhere'


def test_all_of_the_examples_of_distillation_agree(capsys):
  assert check.main(['check', str(DISTILLATION)]) == 0
  verdicts = _lines(capsys.readouterr().out)
  keys = json.loads(DISTILLATION.read_text()).keys()
  assert verdicts == dict.fromkeys(keys, 'ok')


def test_the_examples_of_credit_below_the_trajectory_agree(capsys):
  assert check.main(['check', str(AGENTIC)]) == 0
  verdicts = _lines(capsys.readouterr().out)
  assert {k for k, v in verdicts.items() if v == 'ok'} == {
    *worked_agentic.TABLE,
    *worked_choosing.TABLE,
    *worked_evaluation.TABLE,
    *worked_scheduling.TABLE,
  }
  assert 'MISMATCH' not in verdicts.values()


def test_all_of_the_supervised_examples_agree(capsys):
  assert check.main(['check', str(SUPERVISED)]) == 0
  verdicts = _lines(capsys.readouterr().out)
  keys = json.loads(SUPERVISED.read_text()).keys()
  assert verdicts == dict.fromkeys(keys, 'ok')


def test_all_of_the_examples_of_critics_agree(capsys):
  assert check.main(['check', str(CRITICS)]) == 0
  verdicts = _lines(capsys.readouterr().out)
  keys = json.loads(CRITICS.read_text()).keys()
  assert verdicts == dict.fromkeys(keys, 'ok')


def test_no_row_is_without_a_number():
  files = WORKED, DISTILLATION, PREFERENCE, SUPERVISED, CRITICS
  numbers = {
    k: x for file in files for k, x in worked_tables.load(file).items()
  }
  # Of the agentic examples some have no row yet.
  told = worked_tables.ROWS.keys() | worked_tables.NOT_HERE
  agentic = worked_tables.load(AGENTIC).keys()
  assert numbers.keys() <= told <= numbers.keys() | agentic
  results = [name for name in np.load(POLICY).files if name[:4] == 'out/']
  rows = {f'{k}/{n}' for k, names in policy_rows.KINDS.items() for n in names}
  assert {f'out/{row}' for row in rows} == set(results)


def _worked(folder, **changes):
  """A file of some worked examples."""
  path = folder / 'worked.json'
  path.write_text(json.dumps(changes))
  return path


def test_a_worked_number_that_differs_is_a_mismatch(tmp_path, capsys):
  numbers = {
    'gsi.sigma': '0.433013',
    'ppo.clipfrac': '0.222225',
    'adv.dr_grpo': '[0.550000, -0.250000, -0.450000]',
    'none': '1.0',
  }
  assert check.main(['check', str(_worked(tmp_path, **numbers))]) == 1
  assert _lines(capsys.readouterr().out) == {
    'gsi.sigma': 'ok',
    'ppo.clipfrac': 'MISMATCH',
    'adv.dr_grpo': 'MISMATCH',
    'none': 'unknown',
  }


def test_a_column_stands_for_a_number_a_sequence_only_if_it_is_constant():
  mask = [[False, False, True], [False, True, True]]
  column = np.ma.array([[1.0, 1.0, 7.0], [2.0, 7.0, 7.0]], mask=mask)
  theirs = np.asarray([1.0, 2.0])
  np.testing.assert_array_equal(worked_tables.like(column, theirs), theirs)
  column[0, 1] = 1.1
  assert np.isnan(worked_tables.like(column, theirs)[0])
  np.testing.assert_array_equal(
    worked_tables.like(column, np.zeros((2, 3))), [[1, 1.1, 0], [2, 0, 0]]
  )


@pytest.mark.parametrize('key', ['adv/rloo', 'grad/cispo', 'loss/gspo'])
def test_a_perturbed_number_is_a_mismatch(tmp_path, capsys, key):
  def change(arrays):
    _keep('kl/k1', key)(arrays)
    perturbed = np.array(arrays['out/' + key])
    perturbed.flat[0] += 2e-6
    arrays['out/' + key] = perturbed

  assert check.main(['check', str(_copy(tmp_path, change))]) == 1
  verdicts = _lines(capsys.readouterr().out)
  assert verdicts == {'kl/k1': 'ok', key: 'MISMATCH'}


def test_nan_and_another_shape_are_mismatches(tmp_path, capsys):
  def change(arrays):
    _keep('kl/k1', 'kl/k2')(arrays)
    arrays['out/kl/k1'] = arrays['out/kl/k1'] * np.nan
    arrays['out/kl/k2'] = arrays['out/kl/k2'][:1]

  assert check.main(['check', str(_copy(tmp_path, change))]) == 1
  verdicts = _lines(capsys.readouterr().out)
  assert verdicts == {'kl/k1': 'MISMATCH', 'kl/k2': 'MISMATCH'}


def test_settings_come_from_the_named_file(tmp_path):
  path = _copy(tmp_path, _keep('loss/dapo_clip_higher'))
  settings = json.loads(path.with_suffix('.json').read_text())
  settings['dapo_clip_higher']['clip_ratio_high'] = 0.2
  other = tmp_path / 'other.json'
  other.write_text(json.dumps(settings))
  assert check.main(['check', str(path)]) == 0
  assert check.main(['check', str(path), str(other)]) == 1


def test_a_file_of_unknown_keys_does_not_pass(tmp_path, capsys):
  def change(arrays):
    _keep()(arrays)
    arrays['out/loss/none'] = np.zeros(())

  assert check.main(['check', str(_copy(tmp_path, change))]) == 1
  assert _lines(capsys.readouterr().out) == {'loss/none': 'unknown'}


@pytest.mark.parametrize('ok, status', [(True, 0), (False, 1)])
def test_a_folder_is_checked_as_a_checkpoint(
  tmp_path, monkeypatch, capsys, ok, status
):
  asked = []

  def check_folder(path):
    asked.append(path)
    return [('logits', 1e-6, True), ('greedy', 0.0, ok)]

  stub = types.SimpleNamespace(check_folder=check_folder)
  monkeypatch.setitem(sys.modules, 'hf_check', stub)
  assert check.main(['check', str(tmp_path)]) == status
  assert asked == [tmp_path]
  assert _lines(capsys.readouterr().out + 'end\n')['logits'] == 'ok'


def test_wrong_usage(tmp_path, capsys):
  assert check.main(['check']) == 2
  assert check.main(['check', str(tmp_path / 'none.npz')]) == 2
  assert 'python tests/golden/check.py FILE.npz' in capsys.readouterr().err
