"""Known faults of ends: what is cut off, and batches that never fill."""

from typing import Any, cast

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import plain
import tiny

import arl
from arl import episode
from arl.evaluate import summary
from arl.kernels import aggregations
from arl.prompts import curricula, select
from arl.rewards import lengths
from arl.rollout import engine, scripted, strategies
from arl.train import build, carried, gather

FINISHES = ['stop', 'length', 'stop', 'stop']
REWARDS = [1.0, 1.0, 0.0, 1.0]


def rollouts():
  """Four rollouts of a task, one of them cut off, with rewards."""
  made = [
    plain.made([1, 5], [0, 1], rewards=reward)._replace(
      status=episode.MAX_TOKENS if how == 'length' else episode.FINISHED
    )
    for reward, how in zip(REWARDS, FINISHES)
  ]
  return episode.Group(made[0].task, made)


def test_46_zero_for_what_was_cut_off_and_nothing_else():
  found = [
    lengths.unless_cut(episode.total_reward(e), e.status)
    for e in rollouts().episodes
  ]
  assert found == [1, 0, 0, 1]


def centered(members):
  method = arl.method(arl.make('grpo.dr_grpo'))
  batch = plain.columns(members)
  return np.asarray(jax.jit(method.credit)(batch)['policy']['advantage'])[:, 1]


def test_46_out_of_the_baseline_and_the_loss():
  (kept,) = select.finished([rollouts()])
  assert [episode.total_reward(e) for e in kept.episodes] == [1, 0, 1]
  np.testing.assert_allclose(
    centered(kept.episodes), [1 / 3, -2 / 3, 1 / 3], atol=1e-6
  )


def test_46_out_of_the_loss_alone():
  base = arl.Objective(
    advantage=lambda rewards: jnp.ones_like(rewards),
    surrogate=lambda logp: logp,
    aggregate=aggregations.token_mean,
  )
  method = arl.method(arl.make('filters.finished', base=base))
  batch = plain.columns(rollouts().episodes)
  batch['truncated'] = np.broadcast_to(
    np.array([[how == 'length'] for how in FINISHES]), batch['mask'].shape
  )
  credits = jax.jit(method.credit)(batch)
  weights = np.asarray(method.weigh(batch, credits)['policy'])[:, 1]
  np.testing.assert_allclose(weights, [1 / 3, 0, 1 / 3, 1 / 3])


def test_46_otherwise_it_counts_and_is_told_apart():
  group = rollouts()
  assert [episode.total_reward(e) for e in group.episodes] == REWARDS
  told = summary.success(group.episodes)
  assert (told['success'], told['truncated'], told['graded']) == (0.75, 1, 4)


def test_46_the_engine_says_how_it_ended():
  """A stop text ends an answer without the id that ends one."""
  limits = plain.ROOMY._replace(turn_tokens=3)
  said = plain.Canned(
    plain.sample([5, 6, 7], finish=engine.LENGTH), plain.sample([5, 6])
  )
  plan = strategies.Plan(2, engine.Sampling(stop_text=('6',)), limits, (0,))
  cut, ended = strategies.multi_turn(
    said, plain.env(), plain.chat(), [plain.task('1')], plan
  )
  assert (cut.status, ended.status) == (episode.MAX_TOKENS, episode.FINISHED)
  assert (cut.rewards.sum(), ended.rewards.sum()) == (0, 1)


ONE, ALL, NONE = 'mixed', 'solved', 'unsolved'


def world_of(kinds):
  """A world whose task i has rollouts of such rewards."""

  def step(state, text):
    right = {ALL: True, NONE: False, ONE: text == '5'}[state]
    return state, episode.Turn('', float(right), True)

  def task(split, index):
    return episode.Task(f'{split}/{index}', '1', {'kind': kinds[index]})

  env = plain.env()._replace(
    task=task, reset=lambda task: task.data['kind'], step=step
  )
  # The first rollout of a task says 5, the other 6.
  said = scripted.ScriptedEngine(lambda r: [5 + r.path[-2]], 9)
  return build.World(
    tokenizer=None,
    chat=plain.chat(),
    loaded=cast(Any, None),
    env=env,
    engine=said,
    limits=plain.ROOMY,
    stop_text=(),
    strategy=strategies.multi_turn,
  )


def in_order(pool):
  """Tasks once, in their order, until there are no more."""

  def choose(state, step):
    del step
    first = state['next']
    last = min(first + pool.batch, pool.size)
    return [pool.task(i) for i in range(first, last)], {'next': last}

  return curricula.Curriculum(
    begin=lambda: {'next': 0},
    choose=choose,
    observe=lambda state, groups, told: (state, {}),
  )


def gathering(kinds, *, rounds, batch=2, max_age=9):
  """How a run with dynamic sampling gathers from such tasks."""
  config = tiny.config(
    'some/folder',
    steps=99,
    method={'name': 'offpolicy.tis', 'base': 'grpo.dapo'},
    prompts={
      'size': len(kinds),
      'batch': batch,
      'samples': 2,
      'rounds': rounds,
      'max_age': max_age,
      'select': 'select.varied',
      'choose': {'name': 'test_faults_truncation.in_order'},
    },
  )
  return gather.make(
    config, world_of(kinds), strategies.multi_turn, engine.Sampling()
  )


def collected(kinds, steps, **how):
  """The tasks that each step trains on, its facts, and what is left."""
  made = gathering(kinds, **how)
  kept, told = made.begin(), []
  for step in range(steps):
    got, kept = made.collect(kept, step, 0, {})
    names = [g.task.id.removeprefix('train/') for g in got.groups]
    told.append(([int(name) for name in names], got.facts))
    # What is carried is in a checkpoint: it comes back as it was.
    again = carried.from_json(carried.to_json(kept), world_of(kinds).env)
    assert again.chosen == kept.chosen
    assert [i.group.task for i in again.surplus] == [
      i.group.task for i in kept.surplus
    ]
    kept = again
  return told, kept


def test_47_a_verifier_that_always_says_no_ends_after_the_rounds():
  told, kept = collected([NONE] * 12, 2, rounds=3)
  for groups, facts in told:
    assert groups == []
    assert facts['prompts/rounds'] == 3 and facts['prompts/exhausted']
  assert kept.chosen == {'next': 12}  # used, and not to be met again


def test_47_the_first_that_differ_are_trained_and_others_wait():
  kinds = [ONE, NONE, ONE, ALL, ONE, NONE]
  told, _ = collected(kinds, 2, rounds=3)
  assert [groups for groups, _ in told] == [[0, 2], [4]]
  told, kept = collected([ONE, NONE, ONE, ONE, ALL, ONE], 2, rounds=3)
  (first, facts), (second, _) = told
  assert (first, second) == ([0, 2], [3, 5])
  assert facts['prompts/surplus'] == 1 and facts['prompts/rounds'] == 2
  assert not kept.surplus


def test_47_the_end_of_the_data_ends_a_step_cleanly():
  told, kept = collected([ONE, NONE, ALL], 3, rounds=5)
  assert [groups for groups, _ in told] == [[0], [], []]
  assert kept.chosen == {'next': 3}


@hypothesis.settings(deadline=None, max_examples=25)
@hypothesis.given(
  st.lists(st.sampled_from([ONE, ALL, NONE]), min_size=2, max_size=14),
  st.integers(1, 4),
  st.integers(1, 3),
)
def test_47_each_group_that_differs_is_trained_once(kinds, rounds, batch):
  batch = min(batch, len(kinds))
  steps = 2 + 2 * len(kinds)
  told, kept = collected(
    kinds, steps, rounds=rounds, batch=batch, max_age=99 * (rounds > 1)
  )
  trained = [name for groups, _ in told for name in groups]
  assert trained == [i for i, kind in enumerate(kinds) if kind == ONE]
  for groups, facts in told:
    assert len(groups) <= batch
    assert facts.get('prompts/rounds', 0) <= rounds
  assert kept.chosen == {'next': len(kinds)} and not kept.surplus


def test_47_an_update_without_a_group_moves_nothing():
  batch = plain.losses([[1.0]], of=2)
  batch['mask'][:] = False
  method = arl.method(arl.make('terms.imitation'))
  now, metrics = plain.update(
    jnp.float32(1), batch, method, {'imitation': {}}, run=plain.planted
  )
  assert float(now.params) == 1 and float(metrics['loss/total']) == 0
  assert int(now.updates) == 0
