"""A run that learns adapters: what moves, what it samples from and leaves."""

import json

import jax
import numpy as np
import pytest
import tiny
from safetensors import numpy as safetensors_numpy

from arl.models import hf, lora
from arl.train import adapters, loop

LORA = {'rank': 2, 'alpha': 4.0, 'targets': r'.*/(query|value|up|down)'}


@pytest.fixture(scope='module')
def case(tmp_path_factory, compiled_once):
  """The model that a run started from, its config, its folder and its end."""
  del compiled_once
  folder = tmp_path_factory.mktemp('adapters')
  model = tiny.write_model(folder / 'model')
  config = tiny.config(
    model,
    steps=2,
    model={'lora': LORA},
    method={'name': 'ppo.ppo'},
    optimizer={**tiny.config(model).optimizer, 'lr': 0.05},
    eval={'every': 9, 'tasks': 1, 'final_tasks': 2},
    checkpoint={'every': 1},
  )
  end = jax.device_get(loop.train(config, folder / 'run'))
  return model, config, folder / 'run', end


def test_the_rest_stays_and_has_no_moments(case):
  model, _, _, end = case
  kept, learnt = lora.apart(end.params)
  head = kept.pop('value_head')
  assert np.any(head['weight'] != 0)
  tiny.same(kept, hf.load(model).params)
  assert len(learnt) == 4
  assert all(np.any(one['up'] != 0) for one in learnt.values())
  assert all(float(one['scale']) == 2.0 for one in learnt.values())
  learnable = {x.shape for x in jax.tree.leaves([head, *learnt.values()])}
  moments = {x.shape for x in jax.tree.leaves(end.opt_state)}
  assert moments <= learnable | {()}


def test_the_engine_samples_from_the_sum(case):
  _, _, run, _ = case
  for row in tiny.rows(run):
    assert row['mismatch/max'] < 1e-4


def test_the_folder_holds_the_sum_and_the_adapters_beside(case):
  model, _, run, end = case
  final, before = hf.load(run / 'final').params, hf.load(model).params
  wide = lora.apart(end.params)[1]
  for layer, kind in (('0', 'query'), ('0', 'value')):
    base = before['layers'][layer]['attention'][kind]['kernel']
    made = final['layers'][layer]['attention'][kind]['kernel']
    one = wide[f'layers/{layer}/attention/{kind}']
    expected = base + 2 * one['down'] @ one['up']
    np.testing.assert_allclose(made, expected, atol=1e-6)
    assert np.any(made != base)
  folder = run / 'final' / adapters.FOLDER
  told = json.loads((folder / 'adapter_config.json').read_text())
  assert (told['r'], told['lora_alpha']) == (2, 4.0)
  tensors = safetensors_numpy.load_file(folder / 'adapter_model.safetensors')
  assert len(tensors) == 2 * len(told['target_modules']) == 8
  module = 'model.layers.0.mlp.down_proj'
  assert module in told['target_modules']
  for name, part in (('lora_A', 'down'), ('lora_B', 'up')):
    np.testing.assert_array_equal(
      tensors[f'base_model.model.{module}.{name}.weight'].T,
      wide['layers/0/mlp/down'][part],
    )


def test_it_resumes_with_the_same_bits(case, tmp_path):
  _, config, run, end = case
  tiny.cut(run, tmp_path / 'cut', 1)
  tiny.same(loop.train(config, tmp_path / 'cut'), end)


@pytest.mark.parametrize(
  'blocks, message',
  [
    ({'model': {'lora': {**LORA, 'rank': -1}}}, 'has rank -1'),
    ({'model': {'lora': {**LORA, 'alpha': 0.0}}}, 'alpha 0.0'),
    ({'model': {'lora': {**LORA, 'targets': '('}}}, 'no regular expression'),
    ({'updates': {'qk_clip': 100.0}}, 'qk_clip scales'),
    ({'updates': {'frozen': 'embed/.*'}}, 'all else is frozen'),
  ],
)
def test_what_cannot_be_adapted_is_refused(model_folder, blocks, message):
  config = tiny.config(model_folder, **{'model': {'lora': LORA}, **blocks})
  with pytest.raises(ValueError, match=message):
    adapters.check(config)


def test_a_target_that_there_is_not_is_refused_at_once(model_folder, tmp_path):
  block = {**LORA, 'targets': 'layers/0/attention/q_proj'}
  config = tiny.config(model_folder, model={'lora': block})
  with pytest.raises(ValueError, match='names no projection'):
    loop.train(config, tmp_path)


def test_without_a_rank_nothing_is_added(model_folder):
  config = tiny.config(model_folder, updates={'frozen': 'embed/.*'})
  params = {'layers': {'0': {}}}
  assert adapters.add(params, config) == (params, 'embed/.*')
