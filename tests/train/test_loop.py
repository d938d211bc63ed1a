"""Whole runs of a tiny policy: what they leave, and how they resume."""

import functools
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from arl.models import hf, tokenizers, transformer
from arl.rollout import chat as chat_lib
from arl.rollout import engine, local
from arl.train import loop

pytestmark = pytest.mark.usefixtures('compiled_once')
# An epoch has 3 steps; 2 updates a batch, each taken twice.
STEPS = 5


def settings(folder, **blocks):
  made = tiny.config(folder, **{'steps': STEPS, **blocks})
  made.updates.epochs = 2
  made.checkpoint.update(every=1, keep=9)
  return made


@pytest.fixture(scope='module')
def run(model_folder, tmp_path_factory):
  """(folder, final state) of an uninterrupted run."""
  folder = tmp_path_factory.mktemp('runs') / 'whole'
  return folder, loop.train(settings(model_folder), folder)


def test_the_policy_moves(run, model_folder):
  folder, now = run
  assert int(now.updates) == 2 * 2 * STEPS and int(now.skipped) == 0
  start = hf.load(model_folder).params
  moved = jax.tree.map(
    lambda x, y: float(jnp.abs(x - y).max()), now.params, start
  )
  assert min(jax.tree.leaves(moved)) > 1e-3
  assert all(row['train/grad_norm'] > 0 for row in tiny.rows(folder))


@pytest.mark.parametrize(
  'step', [1, 2, 3], ids=['first step', 'in an epoch', 'epoch boundary']
)
def test_a_resumed_run_is_the_run(run, model_folder, tmp_path, step):
  folder = tmp_path / 'cut'
  tiny.cut(run[0], folder, step)
  now = loop.train(settings(model_folder), folder)
  tiny.same(now, run[1])
  assert tiny.rows(folder) == tiny.rows(run[0])
  tiny.same(hf.load(folder / 'final').params, hf.load(run[0] / 'final').params)
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
  tiny.cut(run[0], folder, 4)
  shutil.rmtree(folder / 'checkpoints/4/state')
  now = loop.train(settings(model_folder), folder)
  said = capsys.readouterr().out
  assert f'checkpoint {folder}/checkpoints/4 cannot be read' in said
  assert f'resumed {folder} after step 3' in said
  tiny.same(now, run[1])
  assert tiny.rows(folder) == tiny.rows(run[0])


def test_a_run_killed_before_its_first_checkpoint_starts_anew(
  run, model_folder, tmp_path
):
  folder = tmp_path / 'cut'
  tiny.cut(run[0], folder, 0)
  now = loop.train(settings(model_folder), folder)
  tiny.same(now, run[1])
  assert tiny.rows(folder) == tiny.rows(run[0])


def test_more_steps_go_on_from_the_last(run, model_folder, tmp_path):
  folder = tmp_path / 'longer'
  shutil.copytree(run[0], folder)
  now = loop.train(settings(model_folder, steps=STEPS + 1), folder)
  assert int(now.updates) == 2 * 2 * (STEPS + 1)
  assert tiny.rows(folder)[: STEPS - 1] == tiny.rows(run[0])[: STEPS - 1]
  assert [row['step'] for row in tiny.rows(folder)] == list(range(1, STEPS + 2))
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
    'engine_feed': 2,  # one row, or several
    'engine_generate': 1,  # sampled or greedy, for one batch size
    'engine_score': 0,
  }


def test_engine_and_trainer_agree(run):
  for row in tiny.rows(run[0]):
    assert row['mismatch/max'] < 1e-5


def test_the_first_ratios_are_exactly_one(model_folder, tmp_path):
  # Warm-up begins at a rate of 0: both updates of step 1 are on policy.
  loop.train(tiny.config(model_folder, steps=1), tmp_path)
  (row,) = tiny.rows(tmp_path)
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
  tiny.same(loaded.params, run[1].params)
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


def test_a_mesh_trains_the_same_policy(run, model_folder, tmp_path):
  config = settings(model_folder, mesh={'data': 2, 'fsdp': 2})
  now = loop.train(config, tmp_path)
  close = functools.partial(np.testing.assert_allclose, atol=1e-3)
  jax.tree.map(lambda x, y: close(x, y), *map(jax.device_get, (now, run[1])))
  results = json.loads((tmp_path / 'results.json').read_text())
  assert results['compiles']['step'] == results['compiles']['score'] == 1
