"""Resolving names, and the sentences when there is nothing of that name."""

import os.path
import sys

import pytest

from arl import names
from arl.kernels import divergences
from arl.methods import grpo


def _error(name, home='arl.methods'):
  with pytest.raises(ValueError) as caught:
    names.resolve(name, home)
  return str(caught.value)


def test_a_module_of_the_home_comes_first():
  assert names.resolve('grpo.dapo', 'arl.methods') is grpo.dapo
  assert names.resolve('divergences.k3', 'arl.kernels') is divergences.k3


def test_any_importable_dotted_path():
  assert names.resolve('os.path.join', 'arl.methods') is os.path.join
  name = 'arl.kernels.divergences.k3'
  assert names.resolve(name, 'arl.methods') is divergences.k3


@pytest.mark.parametrize(
  'name, close',
  [
    ('grpo.dap', 'grpo.dapo'),
    ('dapo', 'grpo.dapo'),
    ('gspo', 'sequence.gspo'),
    ('grpo.rloo', 'reinforce.rloo'),
    ('ppo.ppo_', 'ppo.ppo'),
    ('grpo.functools', 'grpo.cispo'),
  ],
)
def test_the_nearest_name_is_suggested(name, close):
  assert _error(name) == (
    f'{name!r} names no function: write module.function of arl.methods, or a'
    f' dotted path that can be imported; did you mean {close!r}?'
  )


@pytest.mark.parametrize(
  'name', ['', '.', 'upper', 'x.y.z', '.x', '..a', 'nosuch.__class__', 'a b.c']
)
def test_a_name_like_no_other_lists_what_there_is(name):
  message = _error(name, 'arl.kernels')
  assert message.startswith(f'{name!r} names no function')


def test_nothing_close_lists_the_choices():
  assert names.suggest('qqqq', ['b', 'a']) == '; known: a, b'
  assert names.suggest('low', ['low_', 'high']) == "; did you mean 'low_'?"


def test_private_and_imported_functions_are_not_offered():
  known = _error('zzzzzzzzz')
  assert 'grpo.grpo' in known and 'compose._check' not in known
  assert 'functools' not in known and 'grpo.Objective' not in known


def test_a_broken_import_inside_a_module_is_not_hidden(tmp_path, monkeypatch):
  (tmp_path / 'broken_lab.py').write_text('import nothing_of_this_name\n')
  monkeypatch.syspath_prepend(tmp_path)
  with pytest.raises(ModuleNotFoundError, match='nothing_of_this_name'):
    names.resolve('broken_lab.method', 'arl.methods')
  sys.modules.pop('broken_lab', None)


def test_a_labs_own_module(tmp_path, monkeypatch):
  (tmp_path / 'own_lab.py').write_text('def method(a=1):\n  return a\n')
  monkeypatch.syspath_prepend(tmp_path)
  assert names.resolve('own_lab.method', 'arl.methods')(a=3) == 3
