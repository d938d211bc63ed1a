"""Laws of pieces: microbatches, devices, and what a method reads.

Of every recipe and product of axes, as in test_laws.py.
"""

import family
import jax
import numpy as np
import pytest


@jax.jit
def _piece(columns, credits, weights):
  """Loss, metrics and gradient of one microbatch, for every method."""
  return {
    name: family.loss_and_gradient(
      method, columns, credits[name], weights[name]
    )
    for name, method in family.METHODS.items()
  }


def _pieces(count, *trees):
  """`_piece` of each of `count` cuts along the rows, stacked."""
  size = family.ROWS // count
  results = []
  for start in range(0, family.ROWS, size):
    cut = jax.tree.map(lambda x, s=start: x[s : s + size], trees)
    results.append(jax.device_get(_piece(*cut)))
  return jax.tree.map(lambda *parts: np.stack(parts), *results)


@pytest.mark.parametrize('count', [1, 2, 4])
def test_microbatches_add_up(count):
  made = family.sequences(1)
  for empty in (2, 3):  # one of the four microbatches has no trained token
    made[empty]['mask'][:] = False
  columns = family.batch(made)
  whole = family.evaluate(columns)
  results = _pieces(
    count,
    columns,
    {name: result.credits for name, result in whole.items()},
    {name: result.weights for name, result in whole.items()},
  )
  for name, ((losses, metrics), gradients) in results.items():
    want = whole[name]
    family.close(np.sum(losses), want.loss, name)
    for metric, parts in metrics.items():
      family.close(np.sum(parts), want.metrics[metric], f'{name} {metric}')
    for column, parts in gradients.items():
      joined = parts.reshape(family.ROWS, family.WIDTH)
      family.close(joined, want.gradient[column], f'{name} {column}')
    if count == 4:
      assert not np.any(gradients['logp'][1])


def test_sharding_over_devices_changes_nothing():
  columns = family.batch(family.sequences(4))
  auto = (jax.sharding.AxisType.Auto,)
  mesh = jax.make_mesh((8,), ('data',), axis_types=auto)
  rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec('data'))
  sharded = jax.tree.map(lambda x: jax.device_put(x, rows), columns)
  assert len(sharded['logp'].sharding.device_set) == 8
  want, got = family.evaluate(columns), family.evaluate(sharded)
  for name in family.METHODS:
    family.close(got[name].loss, want[name].loss, name)
    for column in family.POLICY:
      gradient = got[name].gradient[column]
      family.close(gradient, want[name].gradient[column], name)


@pytest.mark.parametrize('name', family.METHODS)
def test_a_method_reads_only_what_it_says(name):
  method, columns = family.METHODS[name], family.batch(family.sequences(6))
  observed = {'mask', 'rewards', 'rollout_logp', 'seq', 'group', 'turn'}
  read = {n: columns[n] for n in observed | method.needs | {'logp'}}
  scored = {n: x for n, x in read.items() if n not in family.POLICY}

  def run(read, scored):
    credits = method.credit(scored)
    return method.loss(read, credits, method.weigh(scored, credits))

  loss, metrics = jax.eval_shape(run, read, scored)
  assert loss.shape == () and metrics['loss/total'].shape == ()
  for missing in method.needs:
    without = {n: x for n, x in read.items() if n != missing}
    unscored = {n: x for n, x in scored.items() if n != missing}
    with pytest.raises(KeyError, match=missing):
      jax.eval_shape(run, without, unscored)


def test_only_the_policys_columns_carry_a_gradient():
  columns = family.batch(family.sequences(7))
  frozen = [n for n in family.FLOATS if n not in family.POLICY]

  @jax.jit
  def gradients(columns):
    results = {}
    for name in ('grpo', 'ppo', 'penalized_dapo', 'clip/sequence'):
      method = family.METHODS[name]

      def loss(others, method=method):
        read = {**columns, **others}
        credits = method.credit(read)
        return method.loss(read, credits, method.weigh(read, credits))[0]

      results[name] = jax.grad(loss)({n: columns[n] for n in frozen})
    return results

  for leaf in jax.tree.leaves(gradients(columns)):
    np.testing.assert_array_equal(leaf, np.zeros(leaf.shape))
