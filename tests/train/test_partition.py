"""Rules of where parameters lie, and that it makes no difference where."""

import functools

import jax
import numpy as np
import optax
import pytest
import tiny
from jax.sharding import PartitionSpec

from arl import types
from arl.methods import compose, grpo
from arl.models import functional, sizes, transformer
from arl.rollout import pack
from arl.train import context, forward, partition, sharding, state, step

AXES = {'data': 1, 'fsdp': 2, 'expert': 2, 'context': 1, 'tensor': 2}
DENSE, MIXED = False, True
LAYOUTS = [
  (DENSE, {'data': 2, 'fsdp': 4}),
  (DENSE, {'fsdp': 2, 'tensor': 4}),
  (DENSE, {'fsdp': 2, 'context': 2, 'tensor': 2}),
  (MIXED, {'data': 2, 'expert': 2, 'tensor': 2}),
  (MIXED, {'fsdp': 2, 'context': 2, 'tensor': 2}),
  (MIXED, {'expert': 2, 'context': 4}),
]


def placed(shape, axes, rules=partition.DECODER):
  """Of each parameter where it lies, by its path."""
  leaves = jax.tree_util.tree_leaves_with_path(shape)
  return {
    jax.tree_util.keystr(path): partition.spec(path, x.shape, axes, rules)
    for path, x in leaves
  }


def model(mixture=None):
  shape = tiny.size(16)._replace(
    width=16, heads=4, kv_heads=2, head_dim=8, mlp_width=24, mixture=mixture
  )
  return transformer.make(shape)


def test_a_decoder_lies_as_the_rules_say():
  mixture = sizes.Mixture(experts=4, chosen=2, width=8)
  found = placed(jax.eval_shape(model(mixture).init, jax.random.key(0)), AXES)
  layer = "['layers']['0']"
  ways = PartitionSpec('fsdp', 'tensor'), PartitionSpec('tensor', 'fsdp')
  assert found["['embed']['embedding']"] == ways[1]
  assert found[f"{layer}['attention']['query']['kernel']"] == ways[0]
  assert found[f"{layer}['attention']['out']['kernel']"] == ways[1]
  experts = f"{layer}['mlp']['experts']"
  assert found[f"{experts}['up']"] == PartitionSpec('expert', 'fsdp', 'tensor')
  assert found[f"{experts}['down']"] == (
    PartitionSpec('expert', 'tensor', 'fsdp')
  )
  assert found["['norm']['scale']"] == PartitionSpec()
  dense = placed(jax.eval_shape(model().init, jax.random.key(0)), AXES)
  assert dense[f"{layer}['mlp']['gate']['kernel']"] == ways[0]
  assert dense[f"{layer}['mlp']['down']['kernel']"] == ways[1]


def test_moments_lie_with_their_parameters():
  params = jax.eval_shape(model().init, jax.random.key(0))
  now = jax.eval_shape(lambda p: state.create(p, optax.adamw(1e-3)), params)
  found = placed(now, AXES)
  for path, spec in placed(params, AXES).items():
    same = {s for name, s in found.items() if name.endswith(path)}
    assert same == {spec}, path


def test_an_axis_that_does_not_divide_is_left_out():
  path = jax.tree_util.tree_leaves_with_path({'query': {'kernel': 0}})[0][0]
  spec = functools.partial(partition.spec, path, axes={**AXES, 'tensor': 4})
  assert spec(shape=(6, 8)) == PartitionSpec('fsdp', 'tensor')
  assert spec(shape=(6, 6)) == PartitionSpec('fsdp')
  assert spec(shape=(5, 8)) == PartitionSpec(None, 'tensor')
  # Of another number of sides: no rule speaks of it.
  assert spec(shape=(8,)) == PartitionSpec()


@pytest.mark.parametrize(
  'rules, message',
  [
    ((('(', ('fsdp',)),), 'is no regular expression'),
    ((('x', ('context',)),), 'give each an axis of fsdp, expert, tensor, none'),
    ((('x', ('fsdp', 'fsdp')),), 'none twice'),
  ],
)
def test_rules_that_cannot_be_followed(rules, message):
  with pytest.raises(ValueError, match=message):
    partition.check(rules, sharding.OF_PARAMS)
  partition.check(partition.decoder(), sharding.OF_PARAMS)


def packed():
  """Rows of 16 tokens that hold more than one sequence, or part of a half."""
  episodes = tiny.episodes(4, 4, longest=12)
  columns = types.columns(pack.pack(episodes, rows=16, width=16, max_turns=2))
  columns['old_logp'] = columns['rollout_logp']
  segments = columns['segments']
  assert segments.max() > 1
  assert np.any((segments[:, 7] == segments[:, 8]) & (segments[:, 7] > 0))
  return columns


@functools.cache
def updated(mixed, layout):
  """(state, metrics) after an update of stochastic gradient descent."""
  made = model(sizes.Mixture(4, 2, 8) if mixed else None)
  mesh = sharding.make_mesh(**dict(layout))
  lying = sharding.layout(mesh)
  tx = optax.sgd(0.5)
  method = compose.method(grpo.grpo(kl_coef=0))
  run = context.split(
    forward.make(functional.placed(made, lying), temperature=1.0, chunk=8),
    lying,
  )
  update = step.make_train_step(run, method, tx, microbatch=8, mesh=mesh)
  columns = packed()
  start = sharding.shard_params(
    state.create(made.init(jax.random.key(1)), tx), mesh
  )
  columns = sharding.shard_rows(columns, mesh)
  return update(start, columns, method.credit(columns))


@pytest.mark.parametrize('mixed, layout', LAYOUTS, ids=str)
def test_every_layout_takes_the_update_of_one_device(
  mixed, layout, compiled_once
):
  del compiled_once
  want, facts = updated(mixed, (('data', 1),))
  got, found = updated(mixed, tuple(layout.items()))
  np.testing.assert_allclose(
    found['loss/total'], facts['loss/total'], rtol=1e-5, atol=1e-7
  )
  moved = 0.0
  for path, x in jax.tree_util.tree_leaves_with_path(want.params):
    y = dict(jax.tree_util.tree_leaves_with_path(got.params))[path]
    np.testing.assert_allclose(y, x, atol=2e-5, err_msg=str(path))
    moved = max(moved, float(np.abs(x).max()))
  assert moved > 0
