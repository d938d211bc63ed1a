"""Critics of a run: where they come from, what they leave, what they learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from arl.models import critics, functional, heads, hf
from arl.train import critic, export, loop

pytestmark = pytest.mark.usefixtures('compiled_once')
HEAD = functional.VALUE_HEAD


def _block(folder, own, bins=0):
  return tiny.config(
    folder, model={'critic': str(own), 'value_bins': bins}
  ).model


def _valued(folder, seed=0):
  """A policy with a critic that says something, on a trunk of its own."""
  params = hf.load(folder, cast='float32').params
  made = critics.with_trunk(heads.with_value_head(params, tiny.size().width))
  weight = jax.random.normal(jax.random.key(seed), [tiny.size().width])
  own = jax.tree.map(lambda x: x + 0.01, made[HEAD][critics.TRUNK])
  head = {'weight': weight, 'bias': jnp.float32(0.3), critics.TRUNK: own}
  return {**made, HEAD: head}


def _exported(folder, model_folder, shared=False):
  params = _valued(model_folder)
  if shared:
    params[HEAD].pop(critics.TRUNK)
  export.save(folder, params, tiny.size(), tiny.tokenizer())
  return params


def test_a_fresh_critic(model_folder):
  params = hf.load(model_folder).params
  shared = critic.add(params, _block(model_folder, ''), 16)
  assert shared[HEAD].keys() == {'weight', 'bias'}
  own = critic.add(params, _block(model_folder, 'own'), 16)
  tiny.same(own[HEAD][critics.TRUNK], params)
  assert critic.add(params, _block(model_folder, '', 5), 16)[HEAD][
    'bias'
  ].shape == (5,)


@pytest.mark.parametrize('part', ['', export.CRITIC])
def test_an_exported_critic_comes_back(model_folder, tmp_path, part):
  made = _exported(tmp_path / 'final', model_folder)
  tiny.same(hf.load(tmp_path / 'final').params, critics.policy(made))
  block = _block(model_folder, tmp_path / 'final' / part)
  tiny.same(critic.add(critics.policy(made), block, 16), made)


def test_a_head_on_the_policys_trunk_comes_back(model_folder, tmp_path):
  made = _exported(tmp_path / 'final', model_folder, shared=True)
  block = _block(tmp_path / 'final', tmp_path / 'final')
  tiny.same(critic.add(critics.policy(made), block, 16), made)
  # Of another policy it brings that one's trunk along.
  block = _block(model_folder, tmp_path / 'final')
  again = critic.add(critics.policy(made), block, 16)
  tiny.same(again[HEAD][critics.TRUNK], critics.policy(made))


def test_critics_that_do_not_fit_are_refused(model_folder, tmp_path):
  params = hf.load(model_folder).params
  with pytest.raises(ValueError, match='has no value head'):
    critic.add(params, _block(model_folder, model_folder), 16)
  _exported(tmp_path / 'final', model_folder)
  block = _block(model_folder, tmp_path / 'final', bins=4)
  with pytest.raises(ValueError, match='value_head/bias is .*value_bins'):
    critic.add(params, block, 16)


def _run(model_folder, folder, **blocks):
  config = tiny.config(
    model_folder,
    **{
      'steps': 3,
      'eval': {'every': 9, 'tasks': 1, 'final_tasks': 4},
      **blocks,
    },
  )
  config.updates.per_batch = 1
  now = loop.train(config, folder)
  return now, tiny.rows(folder)


def test_values_are_pretrained_while_the_policy_stays(model_folder, tmp_path):
  before = hf.load(model_folder).params
  now, rows = _run(
    model_folder,
    tmp_path / 'values',
    method={'name': 'critics.alone', 'base': 'ppo.vapo'},
    model={'critic': 'own'},
    steps=6,
  )
  tiny.same(critics.policy(now.params), before)
  assert rows[0]['value/explained'] == 0 != rows[-1]['value/explained']
  assert all(row['loss/value'] > 0 for row in rows)
  _, rows = _run(
    model_folder,
    tmp_path / 'vapo',
    method={'name': 'ppo.vapo'},
    model={'critic': str(tmp_path / 'values/final')},
    steps=1,
  )
  # It goes on from what the other had come to.
  assert rows[0]['value/explained'] != 0


REWARD_MODELS = {
  'reward.bt': {'prompts': {'select': 'pairs.best_against_worst'}},
  'reward.orm': {},
  'reward.prm': {'rollout': {'strategy': 'test_critic_runs.labelled'}},
  'reward.agent_prm': {},
}


def labelled(engine, env, chat, tasks, plan):
  """Multi-turn episodes whose steps are good if they say an 'a'."""
  from arl.rollout import strategies

  made = strategies.multi_turn(engine, env, chat, tasks, plan)
  score = lambda one: np.where(one.rewards > 0, 1, 0).astype(np.float32)
  return [
    one._replace(extras={**one.extras, 'process_rewards': score(one)})
    for one in made
  ]


labelled.gives = frozenset({'process_rewards'})


@pytest.mark.parametrize('name', REWARD_MODELS)
def test_reward_models_learn_beside_the_policy(model_folder, tmp_path, name):
  now, rows = _run(
    model_folder,
    tmp_path,
    method={'name': name},
    model={'critic': 'own'},
    **REWARD_MODELS[name],
    steps=10,
  )
  tiny.same(critics.policy(now.params), hf.load(model_folder).params)
  loss = next(key for key in rows[0] if key in (
    'loss/pairs', 'loss/outcome', 'loss/steps'))  # fmt: skip
  np.testing.assert_allclose(rows[0][loss], np.log(2), rtol=1e-3)
  assert np.mean([row[loss] for row in rows[-3:]]) < rows[0][loss]
  folder = export.critic_folder(tmp_path / 'final')
  assert folder == tmp_path / 'final' / export.CRITIC
  assert np.any(export.load_head(folder)['weight'])
