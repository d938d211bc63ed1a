"""Replayed experts on their way from episodes to scores and updates."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import tiny

from arl.methods import compose, grpo
from arl.models import sizes, transformer
from arl.train import (
  batch,
  forward,
  optimizers,
  qk_clip,
  routing,
  score,
  sharding,
  state,
  step,
)

ROWS, WIDTH = 8, 12
SIZE = tiny.size()._replace(
  layers=2,
  head_dim=8,
  tied=False,
  qk_norm=True,
  family='qwen3_moe',
  mixture=sizes.Mixture(experts=6, chosen=2, width=8),
)
REPLAY = routing.replay('rollout', SIZE)


@functools.cache
def policy():
  model, rng = transformer.make(SIZE), np.random.default_rng(0)
  shapes = jax.eval_shape(model.init, jax.random.key(0))
  draw = lambda x: jnp.asarray(0.5 * rng.normal(size=x.shape), x.dtype)
  run = forward.make(model, temperature=1.0, chunk=0)
  return model, run, jax.tree.map(draw, shapes)


def routed(members, shift):
  """The episodes with the experts that the policy chooses, or those after."""
  model, _, params = policy()
  run, made = jax.jit(model.routes), []
  for e in members:
    n = len(e.tokens)
    tokens = np.zeros((1, WIDTH), np.int32)
    tokens[0, :n] = e.tokens
    positions = np.arange(WIDTH, dtype=np.int32)[None]
    own = run(params, tokens, positions, (positions < n).astype(np.int32))
    ids = (np.array(own[0, :n]) + shift) % 6
    ids[-1] = -1
    made.append(e._replace(extras={'routed_experts': ids}))
  return made


@functools.cache
def learner(objective=grpo.dapo, data=1, fsdp=1):
  _, run, _ = policy()
  method = compose.method(objective())
  mesh = sharding.make_mesh(data=data, fsdp=fsdp)
  others = {'ref_logp': run} if 'ref_logp' in method.needs else {}
  on_mesh = {'microbatch': 4, 'mesh': mesh}
  return tiny.learner(objective(), rows=ROWS)._replace(
    mesh=mesh,
    score=score.make_score(run, method.needs, others=others, **on_mesh),
    step=step.make_train_step(run, method, optax.sgd(0.1), **on_mesh),
  )


def scored(made, members, replay=REPLAY):
  _, _, params = policy()
  made = made._replace(replay=replay)
  if 'ref_logp' in made.method.needs:
    made = made._replace(others={'ref_logp': params})
  return batch.make(
    made,
    params,
    [members],
    width=WIDTH,
    max_turns=2,
    from_loop=lambda needs, shape: {},
  )


def test_its_own_choice_scores_as_without():
  members = routed(tiny.episodes(2, 3), shift=0)
  plain = scored(learner(), members, replay=None)
  data = scored(learner(), members)
  assert 'routed_experts' not in plain.columns
  assert 'mismatch/experts' not in plain.metrics
  np.testing.assert_array_equal(
    data.columns['old_logp'], plain.columns['old_logp']
  )
  # All but the last of a sequence are known: the state before every token is.
  assert float(data.metrics['mismatch/replayed']) == 1
  assert float(data.metrics['mismatch/experts']) == 0


def test_other_experts_score_otherwise():
  members = routed(tiny.episodes(2, 3), shift=1)
  unknown = members[0]._replace(
    extras={'routed_experts': np.full_like(
      members[0].extras['routed_experts'], -1
    )}
  )  # fmt: skip
  members = [unknown, *members[1:]]
  plain = scored(learner(), members, replay=None)
  data = scored(learner(), members)
  mask = np.asarray(data.columns['mask'])
  mine = np.asarray(data.columns['seq'].ids == 0) & mask
  old, without = (np.asarray(x.columns['old_logp']) for x in (data, plain))
  assert np.all(old[mask & ~mine] != without[mask & ~mine])
  np.testing.assert_allclose(old[mine], without[mine], atol=1e-5)
  share = 1 - mine.sum() / mask.sum()
  for name in ('mismatch/experts', 'mismatch/replayed'):
    np.testing.assert_allclose(data.metrics[name], share, rtol=1e-6)


def test_a_reference_goes_its_own_way():
  members = routed(tiny.episodes(2, 3), shift=1)
  data = scored(learner(grpo.grpo), members)
  plain = scored(learner(grpo.grpo), members, replay=None)
  np.testing.assert_array_equal(
    data.columns['ref_logp'], plain.columns['ref_logp']
  )
  assert np.any(data.columns['ref_logp'] != data.columns['old_logp'])


def test_an_update_starts_from_a_ratio_of_one():
  members = routed(tiny.episodes(2, 3), shift=1)
  _, _, params = policy()
  made = learner()
  data = scored(made, members)
  begin = state.create(jax.tree.map(jnp.copy, params), optax.sgd(0.1))
  after, metrics = made.step(begin, *batch.update(data, 0, ROWS))
  assert float(metrics['policy/kl']) == 0
  assert float(metrics['train/grad_norm']) > 0
  for i in ('0', '1'):
    old, new = (p['layers'][i]['mlp'] for p in (params, after.params))
    assert np.any(old['router']['kernel'] != new['router']['kernel'])


@pytest.mark.parametrize('data, fsdp', [(2, 2), (1, 4)])
def test_a_mesh_changes_nothing(data, fsdp):
  members = routed(tiny.episodes(2, 3), shift=1)
  _, _, params = policy()
  found = []
  for made in (learner(), learner(data=data, fsdp=fsdp)):
    put = sharding.shard_params(jax.tree.map(jnp.copy, params), made.mesh)
    begin = state.create(put, optax.sgd(0.1))
    columns = scored(made, members)
    after, _ = made.step(begin, *batch.update(columns, 0, ROWS))
    found.append(jax.device_get(after.params))
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), *found
  )


def test_experts_are_split_within_each():
  mesh = sharding.make_mesh(data=1, fsdp=4)
  _, _, params = policy()
  placed = sharding.shard_params(params, mesh)['layers']['0']['mlp']
  shapes = jax.tree.map(lambda x: x.addressable_shards[0].data.shape, placed)
  assert shapes['experts'] == {
    'gate': (6, 4, 8), 'up': (6, 4, 8), 'down': (6, 8, 4),
  }  # fmt: skip


def test_frozen_experts_stay():
  _, _, params = policy()
  fixed = optimizers.matching(params, 'layers/.*/mlp/experts/.*')
  assert set(jax.tree.leaves(fixed['layers']['1']['mlp']['experts'])) == {True}
  assert not fixed['layers']['1']['mlp']['router']['kernel']


def test_norms_of_queries_leave_nothing_to_clip():
  model, _, _ = policy()
  mesh = sharding.make_mesh(data=1, fsdp=1)
  with pytest.raises(ValueError, match='normalizes queries and keys'):
    qk_clip.make(model, tau=100, frozen='', microbatch=4, mesh=mesh)
