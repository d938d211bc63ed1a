"""An update in pieces and on meshes against one gradient of the whole."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import tiny

from arl.methods import compose, grpo
from arl.train import sharding, state, step

MESHES = [(8, (1, 1)), (8, (8, 1)), (8, (1, 8)), (8, (2, 2))]
METHOD = compose.method(grpo.grpo())
ROWS = 16


def tables(params, columns, want):
  """A policy that looks at the token before: two matrices and a vector."""
  before = jnp.roll(columns['tokens'], 1, axis=1)
  hidden = jnp.tanh(params['in'][before]) * params['scale'][None, None]
  logits = jnp.einsum('btd,dv->btv', hidden, params['out'])
  chosen = jnp.take_along_axis(logits, columns['tokens'][..., None], axis=-1)
  return {'logp': chosen[..., 0] - jax.nn.logsumexp(logits, axis=-1)}


@functools.cache
def batch():
  """Columns and credits [16, 12] of 13 episodes, and parameters."""
  columns = tiny.columns(tiny.episodes(4, 4)[:13], rows=ROWS)
  rng = np.random.default_rng(1)
  for name in ('old_logp', 'ref_logp'):
    noise = rng.normal(0, 0.3, (ROWS, 12)).astype(np.float32)
    columns[name] = np.where(columns['mask'], -2 + noise, 0).astype(np.float32)
  params = {
    'in': rng.normal(size=(8, 16)),
    'scale': rng.normal(size=16),
    'out': 0.1 * rng.normal(size=(16, 8)),
  }
  params = jax.tree.map(jnp.float32, params)
  return columns, jax.device_get(jax.jit(METHOD.credit)(columns)), params


@functools.cache
def whole_gradient():
  """Loss and gradient of the batch in one piece: the slow twin."""
  columns, credits, params = batch()

  def loss(params):
    made = tables(params, columns, frozenset({'logp'}))
    weights = METHOD.weigh(columns, credits)
    return METHOD.loss({**columns, **made}, credits, weights)

  (value, _), grads = jax.jit(jax.value_and_grad(loss, has_aux=True))(params)
  return float(value), jax.device_get(grads)


@functools.cache
def model_steps(microbatch, mesh):
  """Host copies of the state after one and two updates; the first's metrics.

  Adam without memory of gradients: its first moment is the last gradient.
  """
  tx = optax.adam(1e-2, b1=0.0)
  columns, credits, params = batch()
  mesh = sharding.make_mesh(data=mesh[0], fsdp=mesh[1])
  update = step.make_train_step(
    tables, METHOD, tx, microbatch=microbatch, mesh=mesh
  )
  start = state.create(jax.tree.map(jnp.copy, params), tx)
  now = sharding.shard_params(start, mesh)
  placed = sharding.shard_rows((columns, credits), mesh)
  homes = [x.sharding for x in jax.tree.leaves(now)]
  now, metrics = update(now, *placed)
  first = jax.device_get(now)
  now, _ = update(now, *placed)
  for x, home in zip(jax.tree.leaves(now), homes, strict=True):
    assert x.sharding.is_equivalent_to(home, x.ndim)
  assert update._cache_size() == 1
  return first, jax.device_get(now), jax.device_get(metrics)


@pytest.mark.parametrize('microbatch, mesh', [(2, (1, 1)), *MESHES], ids=str)
def test_pieces_and_meshes_take_the_gradient_of_the_whole(microbatch, mesh):
  first, _, metrics = model_steps(microbatch, mesh)
  value, grads = whole_gradient()
  np.testing.assert_allclose(metrics['loss/total'], value, atol=1e-6)
  norm = np.sqrt(sum(np.sum(g**2) for g in jax.tree.leaves(grads)))
  np.testing.assert_allclose(metrics['train/grad_norm'], norm, rtol=1e-5)
  close = lambda x, y: np.testing.assert_allclose(x, y, atol=1e-6)
  jax.tree.map(close, first.opt_state[0].mu, grads)
  assert norm > 0.1


@pytest.mark.parametrize('microbatch, mesh', MESHES, ids=str)
def test_pieces_and_meshes_take_the_same_steps(microbatch, mesh):
  _, one, metrics = model_steps(2, (1, 1))
  _, other, sharded = model_steps(microbatch, mesh)
  close = lambda x, y: np.testing.assert_allclose(x, y, atol=1e-4)
  jax.tree.map(close, other, one)
  assert metrics.keys() == sharded.keys()
  for name, value in metrics.items():
    np.testing.assert_allclose(sharded[name], value, atol=1e-5, err_msg=name)
