import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from arl import levels
from arl.train import sharding


def specs(tree):
  return jax.tree.map(lambda x: x.sharding.spec, tree)


def test_parameters_are_split_along_their_widest_divisible_side():
  mesh = sharding.make_mesh(data=2, fsdp=4)
  placed = sharding.shard_params(
    {
      'wide': jnp.zeros([8, 16]),
      'tall': jnp.zeros([16, 8]),
      'odd': jnp.zeros([16, 31]),
      'no': jnp.zeros([6, 31]),
      'vector': jnp.zeros([16]),
      'count': jnp.int32(0),
    },
    mesh,
  )
  assert specs(placed) == {
    'wide': PartitionSpec(None, 'fsdp'),
    'tall': PartitionSpec('fsdp'),
    'odd': PartitionSpec('fsdp'),
    'no': PartitionSpec(),
    'vector': PartitionSpec(),
    'count': PartitionSpec(),
  }
  shapes = {x.data.shape for x in placed['wide'].addressable_shards}
  assert shapes == {(8, 4)}


def test_without_fsdp_every_device_has_all_parameters():
  mesh = sharding.make_mesh(data=4, fsdp=1)
  placed = sharding.shard_params(jnp.zeros([8, 8]), mesh)
  assert placed.sharding.is_fully_replicated
  assert len(placed.devices()) == 4


def test_a_result_stays_where_parameters_are_put():
  mesh = sharding.make_mesh(data=1, fsdp=8)
  placed = sharding.shard_params(
    {'w': jnp.ones([8, 16]), 'b': jnp.ones(16)}, mesh
  )
  made = jax.jit(
    lambda tree: sharding.keep_params(jax.tree.map(jnp.sin, tree), mesh)
  )(placed)
  for new, old in zip(jax.tree.leaves(made), jax.tree.leaves(placed)):
    assert new.sharding.is_equivalent_to(old.sharding, new.ndim)


def test_rows_are_split_over_both_axes():
  mesh = sharding.make_mesh(data=2, fsdp=2)
  columns = {
    'x': np.arange(32.0).reshape(8, 4),
    'seq': levels.Level(np.zeros([8, 4], np.int32), 3),
  }
  placed = sharding.shard_rows(columns, mesh)
  assert {s.data.shape for s in placed['x'].addressable_shards} == {(2, 4)}
  assert placed['seq'].num == 3
  np.testing.assert_array_equal(placed['x'], columns['x'])


def test_each_microbatch_is_split_over_the_mesh():
  mesh = sharding.make_mesh(data=2, fsdp=2)
  tree = {'x': np.arange(32.0).reshape(16, 2), 'scalar': jnp.float32(3)}
  at = jax.jit(lambda tree, i: sharding.microbatches(tree, 8, mesh)(i))
  for i in range(2):
    made = at(tree, i)
    np.testing.assert_array_equal(made['x'], tree['x'][8 * i : 8 * (i + 1)])
    assert made['scalar'] == 3
    assert {s.data.shape for s in made['x'].addressable_shards} == {(2, 2)}


@pytest.mark.parametrize(
  'data, fsdp', [(0, 1), (1, 0), (-1, 8), (9, 1), (3, 3)]
)
def test_a_mesh_that_cannot_be(data, fsdp):
  asked = f'data={data} x fsdp={fsdp} x expert=1 x context=1 x tensor=1 needs'
  with pytest.raises(ValueError, match=asked):
    sharding.make_mesh(data=data, fsdp=fsdp)


def test_rows_that_divide():
  sharding.check_rows(8, sharding.make_mesh(data=2, fsdp=4))
  with pytest.raises(ValueError, match='a multiple of 6'):
    sharding.check_rows(8, sharding.make_mesh(data=3, fsdp=2))
