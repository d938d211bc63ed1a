"""One update of several microbatches: clipped, decayed and counted once.

The gradients of the two microbatches are (3, 0) and (0, 4). Clipping each of
them to norm 1 would give (0.5, 0.5) or (1, 1) for the mean (0.6, 0.8).
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from arl.methods import compose, terms
from arl.train import optimizers, sharding, state, step

BLOCK = {
  'lr': 1.0,
  'warmup': 0,
  'decay': 0,
  'b1': 0.9,
  'b2': 0.99,
  'weight_decay': 0.0,
  'max_norm': 1.0,
}
MAKERS = {
  'adamw': lambda **block: optimizers.adamw(**block),
  'muon': lambda **block: optimizers.muon(**block, momentum=0.95),
}


def two_sided(params, columns, want):
  """Token 3 pulls the first weight of a matrix, the others the second."""
  del want
  first, second = params['layers']['0']['kernel'].reshape(-1)
  logp = jnp.where(columns['tokens'] == 3, 3 * first, 4 * second)
  # An update's loss is a mean over its two tokens.
  return {'logp': jnp.where(columns['mask'], -2 * logp, 0)}


def columns():
  """Two rows with one trained token each: 3 and 4."""
  made = tiny.columns(tiny.episodes(1, 2), rows=2)
  for name in ('tokens', 'mask'):
    made[name] = np.zeros_like(made[name])
  made['mask'][:, 1] = True
  made['tokens'][:, 1] = [3, 4]
  return made


def stepped(name, updates, **changes):
  """The state after updates of two microbatches, and the last metrics."""
  tx = MAKERS[name](**{**BLOCK, **changes})
  mesh = sharding.make_mesh(data=1, fsdp=1)
  method = compose.method(terms.imitation())
  update = step.make_train_step(two_sided, method, tx, microbatch=1, mesh=mesh)
  params = {'layers': {'0': {'kernel': jnp.zeros([2, 1])}}}
  now = sharding.shard_params(state.create(params, tx), mesh)
  for _ in range(updates):
    now, metrics = update(now, columns(), {'imitation': {}})
  return jax.device_get(now), metrics


def moments(now):
  """What the optimizer remembers of the gradients."""
  return [x for x in jax.tree.leaves(now.opt_state) if x.shape == (2, 1)]


def counts(now):
  """What the optimizer and its schedules count."""
  return [
    int(x)
    for x in jax.tree.leaves(now.opt_state)
    if np.issubdtype(x.dtype, np.integer)
  ]


def test_adamw_sees_the_sum_clipped_once():
  now, metrics = stepped('adamw', 1)
  np.testing.assert_allclose(metrics['train/grad_norm'], 5, rtol=1e-6)
  first, second = moments(now)
  np.testing.assert_allclose(first, [[0.06], [0.08]], rtol=1e-5)
  np.testing.assert_allclose(second, [[0.0036], [0.0064]], rtol=1e-5)


def test_muon_sees_the_sum_clipped_once():
  now, _ = stepped('muon', 1)
  (momentum,) = moments(now)
  np.testing.assert_allclose(momentum, [[0.03], [0.04]], rtol=1e-5)
  # A vector is its only singular vector: 0.2 sqrt(2) of about one.
  moved = -now.params['layers']['0']['kernel'].reshape(-1)
  np.testing.assert_allclose(moved / moved.sum(), [3 / 7, 4 / 7], rtol=1e-5)


@pytest.mark.parametrize('name', MAKERS)
def test_two_updates_of_two_microbatches_count_as_two(name):
  now, _ = stepped(name, 2)
  assert int(now.updates) == 2
  assert set(counts(now)) == {2}


@pytest.mark.parametrize('name', MAKERS)
def test_the_rate_falls_by_updates(name):
  # Counted in microbatches, the second update would have the rate 0.5.
  decayed = {'decay': 4, 'schedule': 'schedules.linear'}
  (one, _), (two, _) = (stepped(name, n, **decayed) for n in (1, 2))
  one, two = (x.params['layers']['0']['kernel'] for x in (one, two))
  np.testing.assert_allclose(two - one, 0.75 * one, rtol=1e-4)
