"""A run that trains one block with Muon: what moves, and that it resumes."""

import jax
import numpy as np
import pytest
import tiny

from arl.models import hf
from arl.train import loop

MUON = {
  'name': 'optimizers.muon',
  'lr': 0.01,
  'warmup': 0,
  'decay': 0,
  'momentum': 0.95,
  'b1': 0.9,
  'b2': 0.99,
  'weight_decay': 0.01,
  'max_norm': 1.0,
}


@pytest.fixture(scope='module')
def case(tmp_path_factory, compiled_once):
  """The model that a run started from, its config, its folder and its end."""
  del compiled_once
  folder = tmp_path_factory.mktemp('one_block')
  model = tiny.write_model(
    folder / 'model', shape=tiny.size()._replace(layers=3)
  )
  config = tiny.config(
    model,
    steps=2,
    optimizer=MUON,
    updates={'frozen': r'(?!layers/1/).*'},
    eval={'every': 9, 'tasks': 1, 'final_tasks': 2},
    checkpoint={'every': 1},
  )
  end = jax.device_get(loop.train(config, folder / 'run'))
  return model, config, folder / 'run', end


def by_path(tree):
  return {
    jax.tree_util.keystr(path, simple=True, separator='/'): leaf
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
  }


def test_all_of_one_block_moves_and_nothing_else(case):
  model, _, _, end = case
  before, after = by_path(hf.load(model).params), by_path(end.params)
  moved = {
    path for path in before if not np.array_equal(before[path], after[path])
  }
  assert moved == {path for path in before if path.startswith('layers/1/')}


def test_it_resumes_with_the_same_bits(case, tmp_path):
  _, config, run, end = case
  tiny.cut(run, tmp_path / 'cut', 1)
  again = loop.train(config, tmp_path / 'cut')
  tiny.same(again, end)
