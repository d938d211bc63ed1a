"""Whole runs of a tiny policy: what they leave, and how they resume."""

import functools
import json
import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from arl.kernels import aggregations
from arl.methods import compose
from arl.models import hf, tokenizers, transformer
from arl.rollout import chat as chat_lib
from arl.rollout import engine, local
from arl.train import loop, metrics, outcome

pytestmark = pytest.mark.usefixtures('compiled_once')
# An epoch has 3 steps; 2 updates a batch, each taken twice.
STEPS = 5
TIMED = re.compile('wall|time/.*|speed/.*')


def settings(folder, **blocks):
  blocks = {
    'updates': {'epochs': 2},
    'checkpoint': {'every': 1, 'keep': 9},
  } | blocks
  return tiny.config(folder, **{'steps': STEPS, **blocks})


def rows(folder):
  """The metrics of a run, without what the clock says."""
  return [
    {k: v for k, v in row.items() if not TIMED.fullmatch(k)}
    for row in metrics.read(folder)
  ]


def same(left, right):
  jax.tree.map(
    np.testing.assert_array_equal, *map(jax.device_get, (left, right))
  )


@pytest.fixture(scope='module')
def run(model_folder, tmp_path_factory):
  """(folder, final state) of an uninterrupted run."""
  folder = tmp_path_factory.mktemp('runs') / 'whole'
  return folder, loop.train(settings(model_folder), folder)


def cut(run, folder, step):
  """Makes `folder` the run as a kill after `step` left it."""
  shutil.copytree(run[0], folder)
  for path in (folder / 'checkpoints').iterdir():
    if int(path.name) > step:
      shutil.rmtree(path)
  for name in ('results.json', 'report.html', 'curves.png'):
    (folder / name).unlink()
  shutil.rmtree(folder / 'final')


def test_the_policy_moves(run, model_folder):
  folder, now = run
  assert int(now.updates) == 2 * 2 * STEPS and int(now.skipped) == 0
  start = hf.load(model_folder).params
  moved = jax.tree.map(
    lambda x, y: float(jnp.abs(x - y).max()), now.params, start
  )
  assert min(jax.tree.leaves(moved)) > 1e-3
  assert all(row['train/grad_norm'] > 0 for row in rows(folder))


@pytest.mark.parametrize(
  'step', [1, 2, 3], ids=['first step', 'in an epoch', 'epoch boundary']
)
def test_a_resumed_run_is_the_run(run, model_folder, tmp_path, step):
  folder = tmp_path / 'cut'
  cut(run, folder, step)
  now = loop.train(settings(model_folder), folder)
  same(now, run[1])
  assert rows(folder) == rows(run[0])
  same(hf.load(folder / 'final').params, hf.load(run[0] / 'final').params)
  mine, whole = (
    json.loads((each / 'results.json').read_text()) for each in (folder, run[0])
  )
  for each in (mine, whole):
    del each['wall_seconds'], each['compiles']
  assert mine == whole


def test_an_unreadable_checkpoint_costs_a_step_and_nothing_else(
  run, model_folder, tmp_path, capsys
):
  folder = tmp_path / 'cut'
  cut(run, folder, 4)
  shutil.rmtree(folder / 'checkpoints/4/state')
  now = loop.train(settings(model_folder), folder)
  said = capsys.readouterr().out
  assert f'checkpoint {folder}/checkpoints/4 cannot be read' in said
  assert f'resumed {folder} after step 3' in said
  same(now, run[1])
  assert rows(folder) == rows(run[0])


def test_a_run_killed_before_its_first_checkpoint_starts_anew(
  run, model_folder, tmp_path
):
  folder = tmp_path / 'cut'
  cut(run, folder, 0)
  now = loop.train(settings(model_folder), folder)
  same(now, run[1])
  assert rows(folder) == rows(run[0])


def test_more_steps_go_on_from_the_last(run, model_folder, tmp_path):
  folder = tmp_path / 'longer'
  shutil.copytree(run[0], folder)
  now = loop.train(settings(model_folder, steps=STEPS + 1), folder)
  assert int(now.updates) == 2 * 2 * (STEPS + 1)
  assert rows(folder)[: STEPS - 1] == rows(run[0])[: STEPS - 1]
  assert [row['step'] for row in rows(folder)] == list(range(1, STEPS + 2))
  assert json.loads((folder / 'results.json').read_text())['steps'] == STEPS + 1


@pytest.mark.parametrize(
  'blocks, words',
  [
    ({'optimizer': {'name': 'optimizers.adamw', 'lr': 0.5}}, 'optimizer'),
    ({'seed': 1}, 'seed: 0 -> 1'),
    ({'steps': 4}, 'config.steps is 4, but the workdir holds .* of step 5'),
  ],
)
def test_a_workdir_of_other_settings_is_refused(
  run, model_folder, blocks, words
):
  before = (run[0] / 'metrics.jsonl').read_bytes()
  config = settings(model_folder)
  for name, value in blocks.items():
    if isinstance(value, dict):
      config[name].update(value)
    else:
      config[name] = value
  with pytest.raises(ValueError, match=words):
    loop.train(config, run[0])
  assert (run[0] / 'metrics.jsonl').read_bytes() == before


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


# --- What a run leaves --------------------------------------------------------


def test_the_files_of_a_run(run):
  names = {path.name for path in run[0].iterdir()}
  assert names >= {
    'metrics.jsonl', 'results.json', 'report.html', 'curves.png', 'final',
    'best', 'checkpoints', 'tensorboard',
  }  # fmt: skip
  results = json.loads((run[0] / 'results.json').read_text())
  assert results['method'] == 'grpo.dapo' and results['steps'] == STEPS
  for when in ('before', 'after'):
    for way in ('sampled', 'greedy'):
      found = results[when][way]
      assert found['graded'] == 8 and found['failed'] == 0
      assert found['success_low'] <= found['success'] <= found['success_high']
  assert results['best']['step'] in (2, 4, 5)


def test_what_compiles(run):
  results = json.loads((run[0] / 'results.json').read_text())
  assert results['compiles'] == {
    'score': 1,
    'credit': 1,
    'step': 1,
    'engine_generate': 2 * 1,  # sampled and greedy, for one batch size
    'engine_score': 0,
  }


def test_engine_and_trainer_agree(run):
  for row in rows(run[0]):
    assert row['mismatch/max'] < 1e-5


def test_the_first_ratios_are_exactly_one(model_folder, tmp_path):
  # Warm-up begins at a rate of 0: both updates of step 1 are on policy.
  loop.train(tiny.config(model_folder, steps=1), tmp_path)
  (row,) = rows(tmp_path)
  assert row['policy/kl'] == 0 and row['policy/clip_fraction'] == 0
  assert row['train/grad_norm'] > 0 and row['train/updates'] == 2


def greedy(model, params, tokenizer):
  """The ids and the texts that a policy prefers on four tasks."""
  chat = chat_lib.chat(tokenizer, observation_role='tool')
  sampler = local.LocalEngine(model, params, slots=4, context=24, seed=0)
  tasks = [tiny.letters().task('held_out', i) for i in range(4)]
  requests = [
    engine.Request(tuple(chat.opening(task)), 6, (0, 0)) for task in tasks
  ]
  samples = sampler.generate(
    requests, engine.Sampling(temperature=0, stop=chat.stop)
  )
  ids = [sample.tokens.tolist() for sample in samples]
  return ids, [chat.decode(each) for each in ids]


def test_the_final_folder_says_what_the_policy_says(run):
  folder = run[0] / 'final'
  loaded = hf.load(folder)
  same(loaded.params, run[1].params)
  ids, texts = greedy(
    transformer.make(tiny.size()), run[1].params, tiny.tokenizer()
  )
  assert len(ids) == 4 and any(texts)
  assert (ids, texts) == greedy(
    loaded.model, loaded.params, tokenizers.load(folder)
  )


def test_the_best_folder_loads(run):
  loaded = hf.load(run[0] / 'best')
  assert loaded.sizes == tiny.size()


# --- Other runs ---------------------------------------------------------------


def quick(folder, **blocks):
  """Two steps, the least evaluation."""
  least = {'steps': 2, 'eval': {'every': 9, 'tasks': 1, 'final_tasks': 4}}
  return tiny.config(folder, **{**least, **blocks})


def test_nothing_compiles_after_the_first_steps(
  model_folder, tmp_path, monkeypatch
):
  compiled, by_step = [], []
  jax.monitoring.register_event_duration_secs_listener(
    lambda event, *_, **__: compiled.append(event)
  )
  metrics_of = outcome.training_metrics

  def watched(*args, **kwargs):
    by_step.append(sum('backend_compile' in event for event in compiled))
    return metrics_of(*args, **kwargs)

  monkeypatch.setattr(outcome, 'training_metrics', watched)
  config = quick(model_folder, steps=30, prompts={'select': 'select.varied'})
  config.eval.every = 5
  loop.train(config, tmp_path)
  used = {row['train/groups_used'] for row in rows(tmp_path)}
  assert len(used) > 2, 'batches were not of several fillings'
  assert by_step[0] > 0
  # The first evaluation and checkpoint follow the count of step 5.
  assert len(by_step) == 30 and by_step[6] == by_step[-1]
  results = json.loads((tmp_path / 'results.json').read_text())
  assert results['compiles'] == {
    'score': 1, 'credit': 1, 'step': 1, 'engine_generate': 2, 'engine_score': 0
  }  # fmt: skip
  last = rows(tmp_path)[-1]
  assert last['train/reward'] > rows(tmp_path)[0]['train/reward']


def test_a_learning_rate_without_bound_is_stopped(model_folder, tmp_path):
  config = quick(model_folder, steps=9, updates={'max_nonfinite': 4})
  config.optimizer.update(lr=float('inf'), warmup=0)
  with pytest.raises(FloatingPointError) as error:
    loop.train(config, tmp_path)
  said = str(error.value)
  assert said.startswith('step 2: the last 4 updates had a non-finite loss')
  row = rows(tmp_path)[-1]
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
  config = quick(model_folder, env={'name': 'test_loop.untrainable'})
  with pytest.raises(RuntimeError) as error:
    loop.train(config, tmp_path)
  assert re.fullmatch(
    r'16 of 16 episodes failed, more than rollout.max_failed = 0.5; the first,'
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
  counts = [
    (r['train/failed'], r['train/environment_error']) for r in rows(tmp_path)
  ]
  assert all(failed == errors > 0 for failed, errors in counts)
  for row in rows(tmp_path):
    assert row['train/graded'] + row['train/failed'] == 16


def test_batches_without_a_group_to_learn_from(model_folder, tmp_path):
  # Nothing earns, so that no group varies.
  config = quick(model_folder, env={'name': 'test_loop.barren'})
  config.prompts.select = 'select.varied'
  now = loop.train(config, tmp_path)
  same(now.params, hf.load(model_folder).params)
  assert int(now.updates) == 0
  for row in rows(tmp_path):
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
  config.prompts.select = 'test_loop.one_group'
  now = loop.train(config, tmp_path)
  (row,) = rows(tmp_path)
  assert int(now.updates) == 1
  # A second, empty update in the mean would give a ratio of 0.5.
  np.testing.assert_allclose(row['policy/ratio'], 1, rtol=1e-6)


PPO = {'name': 'ppo.ppo', 'entropy_coef': 0.01}


def test_a_critic_trains_and_resumes(model_folder, tmp_path):
  config = quick(model_folder, method=PPO, steps=3)
  config.checkpoint.every = 1
  now = loop.train(config, tmp_path / 'whole')
  assert float(jnp.abs(now.params['value_head']['weight']).max()) > 1e-3
  for row in rows(tmp_path / 'whole'):
    assert row['loss/value'] > 0 and row['mismatch/max'] < 1e-5
  assert rows(tmp_path / 'whole')[0]['train/ref_kl'] == 0
  assert rows(tmp_path / 'whole')[-1]['train/ref_kl'] > 0
  assert 'value_head' not in hf.load(tmp_path / 'whole/final').params
  cut((tmp_path / 'whole', now), tmp_path / 'cut', 1)
  same(loop.train(config, tmp_path / 'cut'), now)
  assert rows(tmp_path / 'cut') == rows(tmp_path / 'whole')


def test_a_mesh_trains_the_same_policy(run, model_folder, tmp_path):
  config = settings(model_folder, mesh={'data': 2, 'fsdp': 2})
  now = loop.train(config, tmp_path)
  close = functools.partial(np.testing.assert_allclose, atol=1e-3)
  jax.tree.map(lambda x, y: close(x, y), *map(jax.device_get, (now, run[1])))
  results = json.loads((tmp_path / 'results.json').read_text())
  assert results['compiles']['step'] == results['compiles']['score'] == 1


def demonstrated(folder, method):
  config = quick(folder, method=method, steps=4)
  config.rollout.strategy = 'demonstrations.noisy'
  config.updates.update(epochs=3, max_nonfinite=3)
  return config


def test_imitation_of_demonstrations(model_folder, tmp_path):
  config = demonstrated(model_folder, {'name': 'terms.imitation'})
  loop.train(config, tmp_path)
  loss = [row['loss/imitation'] for row in rows(tmp_path)]
  assert loss[-1] < 0.95 * loss[0]
  assert not any('mismatch/max' in row for row in rows(tmp_path))


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
  config = demonstrated(model_folder, {'name': 'test_loop.behavior_cloning'})
  with pytest.raises(FloatingPointError, match='loss nan'):
    loop.train(config, tmp_path)
  assert rows(tmp_path)[-1]['train/updates'] == 0
