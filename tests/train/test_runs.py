"""Runs of a tiny policy that fail, starve, imitate or have a critic."""

import json
import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import tiny

from arl.kernels import aggregations
from arl.methods import compose
from arl.models import hf, tokenizers
from arl.train import loop, outcome

pytestmark = pytest.mark.usefixtures('compiled_once')


def quick(folder, **blocks):
  """Two steps, the least evaluation."""
  least = {'steps': 2, 'eval': {'every': 9, 'tasks': 1, 'final_tasks': 4}}
  return tiny.config(folder, **{**least, **blocks})


def test_nothing_compiles_after_the_first_steps(
  model_folder, tmp_path, monkeypatch, request
):
  compiled, by_step = [], []
  listen = lambda event, *_, **__: compiled.append(event)
  jax.monitoring.register_event_duration_secs_listener(listen)
  request.addfinalizer(
    lambda: jax.monitoring.unregister_event_duration_listener(listen)
  )
  metrics_of = outcome.training_metrics

  def watched(*args, **kwargs):
    by_step.append(sum('backend_compile' in event for event in compiled))
    return metrics_of(*args, **kwargs)

  monkeypatch.setattr(outcome, 'training_metrics', watched)
  config = quick(model_folder, steps=30, prompts={'select': 'select.varied'})
  config.eval.every = 5
  loop.train(config, tmp_path)
  used = {row['train/groups_used'] for row in tiny.rows(tmp_path)}
  assert len(used) > 2, 'batches were not of several fillings'
  assert by_step[0] > 0
  # The first evaluation and checkpoint follow the count of step 5.
  assert len(by_step) == 30 and by_step[6] == by_step[-1]
  results = json.loads((tmp_path / 'results.json').read_text())
  assert results['compiles'] == {
    'score': 1, 'credit': 1, 'step': 1,
    'engine_feed': 2, 'engine_generate': 1, 'engine_score': 0,
  }  # fmt: skip
  last = tiny.rows(tmp_path)[-1]
  assert last['train/reward'] > tiny.rows(tmp_path)[0]['train/reward']


def test_terms_are_added_to_rewards_and_logged(model_folder, tmp_path):
  terms = {
    'turns': {'name': 'shaping.turns', 'weight': 0.1},
    'long': {
      'name': 'shaping.overlong', 'weight': 0.2, 'longest': 12, 'buffer': 6,
    },
  }  # fmt: skip
  loop.train(quick(model_folder, reward={'terms': terms}), tmp_path)
  (first, *_) = tiny.rows(tmp_path)
  assert -0.2 <= first['reward/turns'] < 0 and first['reward/long'] < 0
  both = first['reward/turns'] + first['reward/long']
  np.testing.assert_allclose(first['reward/added'], both, rtol=1e-6)


@pytest.mark.parametrize(
  'reward, message',
  [
    ({'terms': {'t': {'name': 'shaping.turns'}}}, r'terms.t: give it a weight'),
    ({'cap': 0.7}, 'cap is 0.7; give 0 to 0.5'),
    ({'terms': {'t': {'name': 'shaping.turn', 'weight': 1.0}}}, 'turns'),
  ],
)
def test_bad_terms_are_refused_before_anything_runs(
  reward, message, model_folder, tmp_path
):
  with pytest.raises((ValueError, AttributeError), match=message):
    loop.train(quick(model_folder, reward=reward), tmp_path)


def unbounded():
  return optax.sgd(float('inf'))


def test_a_learning_rate_without_bound_is_stopped(model_folder, tmp_path):
  config = quick(
    model_folder,
    steps=9,
    updates={'max_nonfinite': 4},
    optimizer={'name': 'test_runs.unbounded'},
  )
  with pytest.raises(FloatingPointError) as error:
    loop.train(config, tmp_path)
  said = str(error.value)
  assert said.startswith('step 2: the last 4 updates had a non-finite loss')
  row = tiny.rows(tmp_path)[-1]
  assert row['step'] == 2 and row['train/nonfinite'] == 1
  loss, norm = row['loss/total'], row['train/grad_norm']
  assert f'(loss {loss}, gradient norm {norm})' in said
  assert row['train/updates'] == 0


def test_a_policy_that_is_not_finite_does_not_sample(model_folder, tmp_path):
  loaded = hf.load(model_folder)
  loaded.params['norm']['scale'] *= jnp.nan
  hf.save(tmp_path / 'model', jax.device_get(loaded.params), loaded.sizes)
  tokenizers.save(tiny.tokenizer(), tmp_path / 'model')
  with pytest.raises(ValueError, match='not all finite.*look at its weights'):
    loop.train(quick(tmp_path / 'model'), tmp_path / 'run')


def untrainable():
  """An environment that answers held-out tasks only."""
  env = tiny.letters()

  def reset(task):
    if '/train/' in task.id:
      raise OSError('no room')
    return env.reset(task)

  return env._replace(reset=reset)


def test_an_environment_that_fails_stops_the_run(model_folder, tmp_path):
  config = quick(model_folder, env={'name': 'test_runs.untrainable'})
  with pytest.raises(RuntimeError) as error:
    loop.train(config, tmp_path)
  assert re.fullmatch(
    r'16 of 16 episodes failed, more than rollout.max_failed = 0.5; mend the'
    r' environment, or raise that. The first,'
    r" of task 'letters/train/\d+': environment_error: env.reset raised OSError"
    r' on task letters/train/\d+: no room\.',
    str(error.value),
  )


def test_an_environment_that_fails_at_times_is_put_up_with(
  model_folder, tmp_path
):
  config = quick(model_folder, env={'name': 'tiny.letters', 'broken': 'b'})
  config.rollout.max_failed = 0.9
  now = loop.train(config, tmp_path)
  assert int(now.updates) == 4
  for row in tiny.rows(tmp_path):
    assert row['train/failed'] == row['train/environment_error'] > 0
    assert row['train/graded'] + row['train/failed'] == 16


def test_batches_without_a_group_to_learn_from(model_folder, tmp_path):
  # Nothing earns, so that no group varies.
  config = quick(model_folder, env={'name': 'test_runs.barren'})
  config.prompts.select = 'select.varied'
  now = loop.train(config, tmp_path)
  tiny.same(now.params, hf.load(model_folder).params)
  assert int(now.updates) == 0
  for row in tiny.rows(tmp_path):
    assert row['train/groups_used'] == 0 and row['train/updates'] == 0
    assert not any(name.startswith(('loss/', 'policy/')) for name in row)


def barren():
  env = tiny.letters()

  def step(state, text):
    state, turn = env.step(state, text)
    return state, turn._replace(reward=0.0)

  return env._replace(step=step)


def one_group(groups):
  """A selection that leaves one of two updates empty."""
  return groups[:1]


def test_an_empty_update_is_none(model_folder, tmp_path):
  config = quick(model_folder, steps=1)
  config.prompts.select = 'test_runs.one_group'
  now = loop.train(config, tmp_path)
  (row,) = tiny.rows(tmp_path)
  assert int(now.updates) == 1
  # A second, empty update in the mean would give a ratio of 0.5.
  np.testing.assert_allclose(row['policy/ratio'], 1, rtol=1e-6)


PPO = {'name': 'ppo.ppo', 'entropy_coef': 0.01}


def test_a_critic_trains_and_resumes(model_folder, tmp_path):
  config = quick(model_folder, method=PPO, steps=3)
  config.checkpoint.every = 1
  now = loop.train(config, tmp_path / 'whole')
  assert float(jnp.abs(now.params['value_head']['weight']).max()) > 1e-3
  for row in tiny.rows(tmp_path / 'whole'):
    assert row['loss/value'] > 0 and row['mismatch/max'] < 1e-5
  assert tiny.rows(tmp_path / 'whole')[0]['train/ref_kl'] == 0
  assert tiny.rows(tmp_path / 'whole')[-1]['train/ref_kl'] > 0
  assert 'value_head' not in hf.load(tmp_path / 'whole/final').params
  tiny.cut(tmp_path / 'whole', tmp_path / 'cut', 1)
  tiny.same(loop.train(config, tmp_path / 'cut'), now)
  assert tiny.rows(tmp_path / 'cut') == tiny.rows(tmp_path / 'whole')


def demonstrated(folder, method):
  config = quick(folder, method=method, steps=4)
  config.rollout.strategy = 'demonstrations.noisy'
  config.updates.update(epochs=3, max_nonfinite=3)
  return config


def test_imitation_of_demonstrations(model_folder, tmp_path):
  config = demonstrated(model_folder, {'name': 'terms.imitation'})
  loop.train(config, tmp_path)
  loss = [row['loss/imitation'] for row in tiny.rows(tmp_path)]
  assert loss[-1] < 0.95 * loss[0]
  assert not any('mismatch/max' in row for row in tiny.rows(tmp_path))


def test_imitation_of_samples_is_refused(model_folder, tmp_path):
  config = quick(model_folder, method={'name': 'terms.imitation'})
  with pytest.raises(ValueError, match='^terms.imitation imitates'):
    loop.train(config, tmp_path)


def test_a_policy_gradient_on_demonstrations_is_refused(model_folder, tmp_path):
  config = demonstrated(model_folder, {'name': 'grpo.dapo'})
  with pytest.raises(ValueError, match='^grpo.dapo estimates a policy'):
    loop.train(config, tmp_path)


def behavior_cloning():
  """Imitation that reads what the acting policy thought, which nobody knows."""
  return compose.Term(
    'gap',
    (('loss', lambda logp, rollout_logp: rollout_logp - logp),),
    aggregations.token_mean,
  )


def test_reading_the_log_probs_of_demonstrations_trains_nothing(
  model_folder, tmp_path
):
  config = demonstrated(model_folder, {'name': 'test_runs.behavior_cloning'})
  with pytest.raises(FloatingPointError, match='loss nan'):
    loop.train(config, tmp_path)
  assert tiny.rows(tmp_path)[-1]['train/updates'] == 0


def test_a_model_replaced_meanwhile_is_refused(tmp_path):
  # Its reference would be another, or the checkpoint not fit.
  model = tiny.write_model(tmp_path / 'model')
  loop.train(quick(model, steps=1), tmp_path / 'run')
  wide = tiny.size()._replace(width=32)
  for seed, size in ((1, tiny.size()), (0, wide)):
    shutil.rmtree(model)
    tiny.write_model(model, seed, size)
    with pytest.raises(ValueError, match='started from other weights'):
      loop.train(quick(model), tmp_path / 'run')
