"""The golden numbers of other libraries, and the script that checks them."""

import json
import pathlib
import sys
import types

import check
import numpy as np
import pytest

FOLDER = pathlib.Path(__file__).parent
POLICY = FOLDER / 'policy_verl_0_9_1.npz'
LOSSES = (
  'ppo_clip/token-mean',
  'ppo_clip/seq-mean-token-sum',
  'ppo_clip/seq-mean-token-mean',
  'ppo_clip/seq-mean-token-sum-norm',
  'dapo_clip_higher',
  'dual_clip',
  'gspo',
  'cispo',
  'reinforce',
)
COLUMNS = (
  'gae_g1_l0.95_whitened',
  'gae_g0.97_l0.9_whitened',
  'grpo',
  'dr_grpo',
  'rloo',
)
KNOWN = {
  *(f'{kind}/{name}' for kind in ('loss', 'grad') for name in LOSSES),
  *(f'{kind}/{name}' for kind in ('adv', 'ret') for name in COLUMNS),
  *(f'kl/{name}' for name in ('k1', 'k2', 'k3')),
  'loss/value_clipped',
  'loss/entropy_token_mean',
}


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


def test_policy_file_agrees_in_exactly_the_known_keys(capsys):
  assert check.main(['check', str(POLICY)]) == 0
  verdicts = _lines(capsys.readouterr().out)
  assert {k for k, v in verdicts.items() if v == 'ok'} == KNOWN
  assert set(verdicts.values()) == {'ok', 'unknown'}
  assert len(verdicts) == sum(
    k.startswith('out/') for k in np.load(POLICY).files
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
  path = _copy(tmp_path, _keep('loss/sapo'))
  assert check.main(['check', str(path)]) == 1
  assert _lines(capsys.readouterr().out) == {'loss/sapo': 'unknown'}


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
