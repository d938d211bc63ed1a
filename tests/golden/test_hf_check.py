"""Decoders of each family against logits and greedy text of the reference."""

import pathlib
import shutil

import hf_check
import numpy as np
import pytest

FOLDERS = sorted((pathlib.Path(__file__).parent / 'hf').iterdir())


@pytest.mark.parametrize('folder', FOLDERS, ids=lambda folder: folder.name)
def test_folder_agrees(folder):
  checks = hf_check.check_folder(folder)
  assert [check.name for check in checks] == [
    'logits',
    'greedy by apply',
    'greedy by extend',
    *(('experts',) if folder.name.endswith('moe') else ()),
  ]
  assert all(check.ok for check in checks), checks


def test_disagreement_is_seen(tmp_path):
  folder = shutil.copytree(FOLDERS[0], tmp_path / 'changed')
  expected = dict(np.load(folder / 'expected.npz'))
  expected['logits'][1, 3, 7] += 0.01
  expected['greedy'][0, 20] += 1
  np.savez(folder / 'expected.npz', **expected)
  logits, by_apply, by_extend = hf_check.check_folder(folder)
  assert not logits.ok
  np.testing.assert_allclose(logits.error, 0.01, rtol=1e-2)
  assert not by_apply.ok and not by_extend.ok
  assert by_apply.error == by_extend.error == 1


def test_another_expert_is_seen(tmp_path):
  (mixture,) = (folder for folder in FOLDERS if folder.name == 'qwen3_moe')
  folder = shutil.copytree(mixture, tmp_path / 'changed')
  expected = dict(np.load(folder / 'expected.npz'))
  first = expected['experts'][0, 0, 0]
  expected['experts'][0, 0, 0] = first[::-1]
  np.savez(folder / 'expected.npz', **expected)
  *others, experts = hf_check.check_folder(folder)
  assert all(check.ok for check in others)
  assert experts == ('experts', 2, False)
