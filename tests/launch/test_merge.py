"""The average of two models."""

import json

import jax
import numpy as np
import pytest
import tiny

from arl.models import hf, tokenizers
from launch import merge


@pytest.fixture(scope='module')
def models(tmp_path_factory, compiled_once):
  del compiled_once
  folder = tmp_path_factory.mktemp('models')
  return [str(tiny.write_model(folder / str(seed), seed)) for seed in range(2)]


def load(folder):
  return hf.load(folder, dtype='float32', cast='float32').params


def test_parameters_are_averaged(models):
  first, second = map(load, models)
  made = merge.average(models, [3, 1], 'float32')
  jax.tree.map(
    lambda x, a, b: np.testing.assert_allclose(
      x, 0.75 * a + 0.25 * b, atol=1e-6
    ),
    made.params,
    first,
    second,
  )


def test_what_it_reaches_is_told(models, tmp_path):
  config = tiny.config('', model={'size': 'tiny'})
  made = merge.merge(config, [models[0]] * 2, [1, 1], tmp_path)
  assert made['before'] == made['after']  # of one model with itself
  assert json.loads((tmp_path / 'results.json').read_text()) == made
  tiny.same(load(tmp_path / 'final'), load(models[0]))
  made = merge.merge(config, models, [0, 1], tmp_path)
  tiny.same(load(tmp_path / 'final'), load(models[1]))
  assert made['models'] == models and config.model.size == 'tiny'


def test_models_that_do_not_fit_are_refused(models, tmp_path):
  wide = tiny.size()._replace(mlp_width=32)
  other = str(tiny.write_model(tmp_path / 'wide', shape=wide))
  with pytest.raises(ValueError, match='do not have a shape in common'):
    merge.average([models[0], other], [1, 1], 'float32')
  spelled = tiny.write_model(tmp_path / 'spelled')
  changed = tiny.tokenizer()
  changed.add_tokens(['ab'])
  tokenizers.save(changed, spelled)
  with pytest.raises(ValueError, match='do not have a tokenizer in common'):
    merge.average([models[0], str(spelled)], [1, 1], 'float32')


@pytest.mark.parametrize(
  'folders, weights',
  [
    (['a'], [1]),
    (['a', 'b'], [1]),
    (['a', 'b'], [0, 0]),
    (['a', 'b'], [-1, 2]),
  ],
)
def test_weights_that_do_not_fit_are_refused(folders, weights):
  with pytest.raises(ValueError, match='merge: models are'):
    merge.average(folders, weights, 'float32')
