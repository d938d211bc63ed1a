"""Laws of pieces: microbatches that add up, and devices that share a batch.

Over all methods, as in test_laws.py.
"""

import functools

import batches
import family
import jax
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures('compiled_once')

# Groups 0 and 1 lie in the first microbatch, 2 and 3 in the second, 4 in the
# third, in two rows of which sequences of one group are packed; the last has no
# token to train on.
BORDERED = (
  *((0, 0), (0, 5), (1, 2)),
  *((2, 0), (2, 7), (3, 1)),
  *((4, 0), (6, 3), (7, 0)),
  *((8, 0), (8, 5), (11, 9)),
)


@functools.cache
def _compiled(names):
  @jax.jit
  @jax.vmap
  def run(columns, frozen):
    return {
      name: family.loss_and_gradient(
        family.METHODS[name], columns, *frozen[name]
      )
      for name in names
    }

  return run


def _pieces(columns, whole):
  """Loss, metrics and gradient of each of COUNT cuts along the rows."""

  def cut(x):
    if np.ndim(x) < 2:
      return np.stack([x] * batches.COUNT)
    return np.stack(np.split(x, batches.COUNT))

  results = {}
  for names in map(tuple, family.modules()):
    frozen = {n: (whole[n].credits, whole[n].weights) for n in names}
    cuts = jax.tree.map(cut, (columns, frozen))
    results |= jax.device_get(_compiled(names)(*cuts))
  return results


def _check_adding_up(columns, names):
  """Compares the sum of pieces with the whole."""
  columns = jax.tree.map(np.asarray, columns)
  stacked = family.evaluate(batches.join([columns] * batches.COUNT))
  whole = jax.tree.map(lambda x: x[0], stacked)
  results = _pieces(columns, whole)
  for name in names:
    (losses, metrics), gradients = results[name]
    want = whole[name]
    family.close(np.sum(losses), want.loss, name)
    for metric, parts in metrics.items():
      family.close(np.sum(parts), want.metrics[metric], f'{name} {metric}')
    for column, parts in gradients.items():
      joined = np.concatenate(parts)
      family.close(joined, want.gradient[column], f'{name} {column}')
  return results, whole


def test_microbatches_of_whole_groups_add_up():
  for made in batches.some():
    columns = batches.batch(made, BORDERED)
    results, _ = _check_adding_up(columns, family.METHODS)
    for name, ((losses, _), gradients) in results.items():
      empty = losses[-1], *(x[-1] for x in gradients.values())
      assert not any(map(np.any, empty)), name


def test_microbatches_that_cut_groups_add_up_for_those_that_may():
  for made in batches.some():
    may = {n for n, m in family.METHODS.items() if 'group' not in m.whole}
    results, whole = _check_adding_up(batches.batch(made), may)
    for name in family.METHODS.keys() - may:
      losses = results[name][0][0]
      assert not np.allclose(np.sum(losses), whole[name].loss), name


def test_levels_that_stay_whole():
  levels = {n: m.whole for n, m in family.METHODS.items() if m.whole}
  assert set(levels.values()) == {frozenset({'group'})}


def test_sharding_over_devices_changes_nothing():
  columns = batches.padded()
  mesh = jax.make_mesh(
    (8,), ('data',), axis_types=(jax.sharding.AxisType.Auto,)
  )

  def place(x):
    axes = (None, 'data') if x.ndim > 1 else ()
    spec = jax.sharding.PartitionSpec(*axes)
    return jax.device_put(x, jax.sharding.NamedSharding(mesh, spec))

  sharded = jax.tree.map(place, columns)
  assert len(sharded['logp'].sharding.device_set) == 8
  got = family.evaluate(sharded)
  for name, want in family.plain().items():
    for (path, a), b in zip(
      jax.tree_util.tree_leaves_with_path(got[name]),
      jax.tree.leaves(want),
      strict=True,
    ):
      family.close(a, b, f'{name} {jax.tree_util.keystr(path)}', atol=1e-5)
