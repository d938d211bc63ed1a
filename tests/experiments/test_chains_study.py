"""The study of chains: its table is a policy like any other, and it learns."""

import math

import jax
import numpy as np
import pytest

from arl.envs import base
from arl.evaluate import summary
from arl.rollout import engine as engine_lib
from arl.rollout import pack, strategies
from experiments.studies import chains, tabular

pytestmark = pytest.mark.usefixtures('compiled_once')


def _played(length, params, tasks, temperature=1.0):
  env, chat = tabular.chain(length), tabular.chat(tabular.states(length))
  sampling = engine_lib.Sampling(temperature=temperature)
  plan = strategies.Plan(2, sampling, chains.limits(length), (0, 0))
  given = [env.task(base.HELD_OUT, i) for i in range(tasks)]
  engine = tabular.Engine(params, 0)
  return strategies.multi_turn(engine, env, chat, given, plan), engine


def test_the_forward_pass_gives_what_the_engine_sampled_with():
  params = tabular.start(2, 0.5)
  episodes, engine = _played(2, params, 8)
  columns = pack.pack(
    episodes, rows=16, width=42, max_turns=20, extras=(), wide={}
  )
  mask = np.asarray(columns.mask)
  made = tabular.forward(
    params,
    {'tokens': columns.tokens, 'mask': columns.mask},
    {'logp', 'entropy', 'value'},
  )
  told = np.asarray(columns.rollout_logp)
  np.testing.assert_allclose(np.asarray(made['logp']), told, atol=1e-5)
  assert engine.sampled == mask.sum() == sum(len(e.exchanges) for e in episodes)
  assert np.all(np.asarray(made['entropy'])[mask] > 0)
  assert not np.any(np.asarray(made['value']))


def test_the_oracle_goes_through_in_five_turns_a_door():
  env = tabular.chain(3)
  for i in range(5):
    state, over, turns = env.reset(env.task(base.TRAIN, i)), False, 0
    assert env.anchor(state) == env.task(base.TRAIN, i).prompt
    while not over:
      state, turn = env.step(state, env.oracle(state))
      over, turns = turn.done, turns + 1
    assert (turn.reward, turns) == (1.0, 15)


def test_longer_chains_are_harder_from_the_same_start():
  found = [
    summary.success(_played(length, tabular.start(length, 0.5), 48)[0])
    for length in (1, 8)
  ]
  assert found[0]['success'] > found[1]['success'] + 0.1


def test_a_method_learns_and_spends_what_it_is_given():
  entrant = chains.Entrant(chains.METHODS['GiGPO'].method, prompts=8)
  told = chains.learn(entrant, 1, 0, 8000)
  assert told[0]['tokens'] == 0 and 8000 <= told[-1]['tokens'] < 9000
  assert told[-1]['success'] > told[0]['success'] + 0.2


@pytest.mark.parametrize(
  'name', ['StepPO', 'Tree-GRPO', 'SRPO, told by an oracle']
)
def test_an_entrant_with_rollouts_or_a_critic_of_its_own_takes_an_update(name):
  told = chains.learn(chains.METHODS[name]._replace(prompts=2), 1, 0, 50)
  assert told[-1]['batches'] >= 1 and 0 <= told[-1]['success'] <= 1


def test_the_branches_of_vines_are_counted():
  entrant = chains.METHODS['VinePPO']._replace(prompts=2)
  told = chains.learn(entrant, 1, 0, 20)
  assert told[-1]['tokens'] > 2 * 10  # more than two episodes can have


def test_tokens_to_a_success_are_those_of_the_first_time():
  told = [
    {'tokens': n, 'success': s} for n, s in ((0, 0.1), (5, 0.6), (9, 0.4))
  ]
  assert chains.tokens_to(told, 0.5) == 5
  assert math.isnan(chains.tokens_to(told, 0.7))
  assert chains.on_grid([*told, told[-1]], 9)[-1] == {
    'step': 9,
    'success': 0.4,
  }


def test_the_gradient_is_finite_where_nothing_was_sampled():
  params = tabular.start(1, 0.5)
  columns = {
    'tokens': np.array([[9, 0, 11, 0]], np.int32),
    'mask': np.array([[False, True, False, False]]),
  }

  def loss(params):
    return tabular.forward(params, columns, {'logp'})['logp'].sum()

  made = jax.grad(loss)(params)
  assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(made))
  assert np.count_nonzero(np.asarray(made['table']).any(axis=1)) == 1
