"""Rules of where parameters lie, and that it makes no difference where."""

import functools

import jax
import numpy as np
import optax
import pytest
import tiny
from jax.sharding import PartitionSpec

from arl.methods import compose, grpo
from arl.models import sizes, transformer
from arl.train import forward, partition, sharding, state, step

AXES = {'data': 1, 'fsdp': 2, 'expert': 2, 'tensor': 2}
LAYOUTS = [
  {'data': 2, 'fsdp': 4},
  {'fsdp': 2, 'tensor': 4},
  {'data': 2, 'fsdp': 2, 'tensor': 2},
  {'data': 2, 'expert': 2, 'tensor': 2},
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
    ((('x', ('model',)),), 'give each an axis of data, fsdp'),
    ((('x', ('fsdp', 'fsdp')),), 'none twice'),
  ],
)
def test_rules_that_cannot_be_followed(rules, message):
  with pytest.raises(ValueError, match=message):
    partition.check(rules, sharding.AXES)
  partition.check(partition.decoder(), sharding.AXES)


@functools.cache
def updated(mixed, layout):
  """(state, metrics) after an update of stochastic gradient descent."""
  made = model(sizes.Mixture(4, 2, 8) if mixed else None)
  mesh = sharding.make_mesh(**dict(layout))
  tx = optax.sgd(0.5)
  method = compose.method(grpo.grpo(kl_coef=0))
  run = forward.make(made, temperature=1.0, chunk=0)
  update = step.make_train_step(run, method, tx, microbatch=8, mesh=mesh)
  columns = tiny.columns(tiny.episodes(4, 4), rows=16, width=16)
  columns['old_logp'] = columns['rollout_logp']
  start = sharding.shard_params(
    state.create(made.init(jax.random.key(1)), tx), mesh
  )
  columns = sharding.shard_rows(columns, mesh)
  return update(start, columns, method.credit(columns))


@pytest.mark.parametrize('mixed', [False, True], ids=['dense', 'mixture'])
@pytest.mark.parametrize('layout', LAYOUTS, ids=str)
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
