import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import tiny
from hypothesis import given, settings, strategies

from arl.methods import compose, terms
from arl.train import sharding, state, step

IMITATION = compose.method(terms.imitation())


def losses(rows, *, of):
  """`of` rows of columns; `rows` have these token losses, kept in `rewards`."""
  some = tiny.episodes(1, 1)[0]
  members = []
  for i, row in enumerate(rows):
    nothing = np.zeros(len(row) + 1, np.int32)
    members.append(
      some._replace(
        task=some.task._replace(id=f'{i}'),
        tokens=nothing,
        mask=np.arange(len(row) + 1) > 0,
        logp=nothing.astype(np.float32),
        rewards=nothing.astype(np.float32),
        turn=nothing,
      )
    )
  width = max(map(len, rows), default=1) + 1
  made = tiny.columns(members, rows=of, width=width)
  for i, row in enumerate(rows):  # not packed, which refuses nan
    made['rewards'][i, 1 : 1 + len(row)] = row
  return made


def planted(params, columns, want):
  """The policy whose imitation loss is w times the planted number."""
  return {'logp': -params['w'] * columns['rewards']}


def fresh(params, tx, mesh):
  return sharding.shard_params(state.create(params, tx), mesh)


def planted_step(columns, microbatch, *, tx=None, mesh=(1, 1)):
  """One update of the planted policy: (state, metrics)."""
  tx = tx or optax.sgd(1.0)
  mesh = sharding.make_mesh(data=mesh[0], fsdp=mesh[1])
  update = step.make_train_step(
    planted, IMITATION, tx, microbatch=microbatch, mesh=mesh
  )
  start = fresh({'w': jnp.float32(1)}, tx, mesh)
  return update(start, sharding.shard_rows(columns, mesh), {'imitation': {}})


@pytest.mark.parametrize('microbatch', [1, 2, 4])
def test_the_mean_is_of_the_update_not_of_its_pieces(microbatch):
  # Means of means would give 2.
  columns = losses([[3, 3], [1, 1, 1], [1, 1, 1]], of=4)
  made, metrics = planted_step(columns, microbatch)
  np.testing.assert_allclose(metrics['loss/total'], 1.5, rtol=1e-6)
  np.testing.assert_allclose(made.params['w'], 1 - 1.5, rtol=1e-6)


@pytest.mark.parametrize('mesh', [(1, 1), (4, 1), (8, 1), (2, 4)])
def test_filler_rows_do_not_count(mesh):
  # Copies of the first row in their place would give 2.2.
  columns = losses([[1, 1], [2], [3, 3, 3], [4], [5, 5]], of=8)
  made, metrics = planted_step(columns, 8, mesh=mesh)
  np.testing.assert_allclose(metrics['loss/total'], 3, rtol=1e-6)
  np.testing.assert_allclose(metrics['train/grad_norm'], 3, rtol=1e-6)
  np.testing.assert_allclose(made.params['w'], -2, rtol=1e-6)


def test_a_row_left_out_leaves_the_denominator_too():
  columns = losses([[2, 2, 2], [2, 2, 2, 2, 2]], of=2)
  columns['mask'][1] = False
  _, metrics = planted_step(columns, 1)
  np.testing.assert_allclose(metrics['loss/total'], 2, rtol=1e-6)


def two_sided(params, columns, want):
  """Row 0 has the gradient (3, 0), row 1 (0, 4), as a mean over both."""
  side = jnp.where(columns['rewards'] == 3, params[0], params[1])
  return {'logp': -2 * side * columns['rewards']}


@functools.cache
def two_sided_step(tx_name):
  txs = {
    'clip': optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(1.0)),
    'schedule': optax.sgd(lambda count: 10.0 ** -count.astype(jnp.float32)),
  }
  mesh = sharding.make_mesh(data=1, fsdp=1)
  tx = txs[tx_name]
  update = step.make_train_step(
    two_sided, IMITATION, tx, microbatch=1, mesh=mesh
  )
  return lambda: fresh(jnp.zeros(2), tx, mesh), update


def test_the_whole_gradient_is_clipped():
  start, update = two_sided_step('clip')
  columns = losses([[3], [4]], of=2)
  made, metrics = update(start(), columns, {'imitation': {}})
  np.testing.assert_allclose(made.params, [-0.6, -0.8], rtol=1e-6)
  np.testing.assert_allclose(metrics['train/grad_norm'], 5, rtol=1e-6)


def test_the_schedule_counts_updates_that_were_applied():
  start, update = two_sided_step('schedule')
  columns = losses([[3], [4]], of=2)
  bad = losses([[3], [np.nan]], of=2)
  now, seen = start(), []
  for each in (columns, bad, columns, bad, columns):
    now, _ = update(now, each, {'imitation': {}})
    seen.append([*np.asarray(now.params).tolist(), int(now.updates)])
  np.testing.assert_allclose(
    seen,
    [
      [-3, -4, 1],
      [-3, -4, 1],
      [-3.3, -4.4, 2],
      [-3.3, -4.4, 2],
      [-3.33, -4.44, 3],
    ],
    rtol=1e-6,
  )


def watched_step(tx, calls):
  """A jitted update that notes each pass through the policy in `calls`."""

  def forward(params, columns, want):
    jax.debug.callback(lambda: calls.append(1))
    return planted(params, columns, want)

  mesh = sharding.make_mesh(data=1, fsdp=1)
  update = step.make_train_step(forward, IMITATION, tx, microbatch=2, mesh=mesh)
  return fresh({'w': jnp.float32(1)}, tx, mesh), update


def test_rows_without_a_token_are_never_computed_and_nothing_compiles_anew():
  calls = []
  now, update = watched_step(optax.sgd(0.1), calls)
  for filled in (8, 1, 3, 0, 5):
    columns = losses([[1.0]] * filled, of=8)
    calls.clear()
    now, metrics = update(now, columns, {'imitation': {}})
    jax.block_until_ready(now)
    jax.effects_barrier()
    assert len(calls) == -(-filled // 2)
    assert int(metrics['train/nonfinite']) == 0
  assert update._cache_size() == 1
  assert int(now.updates) == 4


@settings(deadline=None, max_examples=30)
@given(strategies.lists(strategies.booleans(), min_size=6, max_size=6))
def test_live_microbatches_against_counting(on):
  mask = jnp.array(on)[:, None] & jnp.array([[False, True]])
  live = [i // 2 + 1 for i, any_on in enumerate(on) if any_on]
  assert int(jax.jit(step.live_microbatches, static_argnums=1)(mask, 2)) == max(
    live, default=0
  )


def test_nothing_moves_without_a_token():
  tx = optax.adam(0.1)
  now, update = watched_step(tx, [])
  bad = losses([[np.nan]], of=8)
  now, _ = update(now, bad, {'imitation': {}})
  before = jax.device_get(now)
  columns = losses([[1.0]], of=8)
  columns['mask'][:] = False
  now, metrics = update(now, columns, {'imitation': {}})
  jax.tree.map(np.testing.assert_array_equal, jax.device_get(now), before)
  assert float(metrics['loss/total']) == 0
  assert int(now.skipped) == 1, 'an empty update is no finite one'


def test_nothing_moves_where_no_token_weighs_anything():
  none_kept = compose.Term(
    'mine', (('loss', lambda logp: -logp),), lambda mask: jnp.zeros(mask.shape)
  )
  mesh = sharding.make_mesh(data=1, fsdp=1)
  tx = optax.adam(0.1)
  steps = [
    step.make_train_step(planted, method, tx, microbatch=1, mesh=mesh)
    for method in (IMITATION, compose.method(none_kept))
  ]
  columns = losses([[1.0]], of=1)
  now = fresh({'w': jnp.float32(1)}, tx, mesh)
  now, _ = steps[0](now, columns, {'imitation': {}})
  before = jax.device_get(now)  # moments that would move on
  now, metrics = steps[1](now, columns, {'mine': {}})
  jax.tree.map(np.testing.assert_array_equal, jax.device_get(now), before)
  assert float(metrics['loss/total']) == 0
  assert int(metrics['train/nonfinite']) == 0


def rooted(params, columns, want):
  """A finite loss; at w = 0 its gradient is infinite."""
  return {'logp': -jnp.sqrt(params['w']) * columns['rewards']}


@pytest.mark.parametrize(
  'policy, tx, w, loss',
  [
    (planted, optax.adam(0.1), 1.0, np.nan),
    (planted, optax.adam(0.1), 1.0, np.inf),
    (rooted, optax.adam(0.1), 0.0, 1.0),
    (planted, optax.adam(np.inf), 1.0, 1.0),
  ],
  ids=['nan loss', 'infinite loss', 'infinite gradient', 'infinite change'],
)
def test_a_non_finite_update_changes_nothing(policy, tx, w, loss):
  mesh = sharding.make_mesh(data=1, fsdp=1)
  update = step.make_train_step(policy, IMITATION, tx, microbatch=1, mesh=mesh)
  now = fresh({'w': jnp.float32(w)}, tx, mesh)
  before = jax.device_get(now)
  for count in (1, 2):
    columns = losses([[1.0], [loss]], of=2)
    now, metrics = update(now, columns, {'imitation': {}})
    assert int(metrics['train/nonfinite']) == 1
    assert int(now.skipped) == count
  after = jax.device_get(now)._replace(skipped=before.skipped)
  jax.tree.map(np.testing.assert_array_equal, after, before)


def test_a_finite_update_resets_the_count():
  now, update = watched_step(optax.sgd(0.1), [])
  counts = []
  for loss in (np.nan, np.inf, 1.0, np.nan):
    columns = losses([[loss]], of=8)
    now, _ = update(now, columns, {'imitation': {}})
    counts.append(int(now.skipped))
  assert counts == [1, 2, 0, 1]
