"""Muon against numbers worked by hand and a twin in NumPy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from arl.models import functional, heads, sizes, transformer
from arl.train import optimizers, sharding

PLAIN = {
  'lr': 1.0,
  'warmup': 0,
  'decay': 0,
  'momentum': 0.95,
  'b1': 0.0,
  'b2': 0.0,
  'weight_decay': 0.0,
  'max_norm': 1e9,
}
GRADIENT = np.array([[3, 1], [0.5, 2]])

close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)


def muon(**changes):
  return optimizers.muon(**{**PLAIN, **changes})


def hidden(matrix):
  """Parameters, or a gradient, whose one matrix belongs to a layer."""
  return {'layers': {'0': {'kernel': jnp.asarray(matrix, jnp.float32)}}}


def run(tx, params, gradients):
  """The parameters after each update."""

  @jax.jit
  def update(params, opt_state, gradient):
    with jax.numpy_dtype_promotion('standard'):
      changes, opt_state = tx.update(gradient, opt_state, params)
    return optax.apply_updates(params, changes), opt_state

  seen, opt_state = [], tx.init(params)
  for gradient in gradients:
    params, opt_state = update(params, opt_state, gradient)
    seen.append(jax.device_get(params))
  return seen


def matrices(tx, gradients, start=None):
  """The one hidden matrix after each update, [n, rows, columns]."""
  start = np.zeros_like(gradients[0]) if start is None else start
  seen = run(tx, hidden(start), [hidden(each) for each in gradients])
  return np.array([each['layers']['0']['kernel'] for each in seen])


def orthogonal(matrix):
  """Five Newton-Schulz steps, in float64."""
  if matrix.shape[0] > matrix.shape[1]:
    return orthogonal(matrix.T).T
  x = matrix / (np.linalg.norm(matrix) + 1e-7)
  for _ in range(5):
    a = x @ x.T
    x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
  return x


def test_five_steps_by_hand():
  (moved,) = matrices(muon(), [GRADIENT])
  expected = [[0.778801, -0.096744], [-0.277450, 1.028263]]
  close(-moved / 0.282843, expected)


@pytest.mark.parametrize('shape', [(2, 5), (5, 2), (4, 4)])
def test_the_scale_is_of_the_longer_side(shape):
  gradient = np.random.default_rng(0).normal(size=shape)
  (moved,) = matrices(muon(), [gradient])
  close(-moved, 0.2 * np.sqrt(max(shape)) * orthogonal(gradient))
  # The size of one of AdamW's changes, whatever the shape.
  assert 0.12 < np.sqrt(np.mean(moved**2)) < 0.26


def test_momentum_looks_ahead():
  rng = np.random.default_rng(1)
  gradients = list(rng.normal(size=(4, 3, 5)))
  moved = matrices(muon(), gradients)
  weights, mean = np.zeros((3, 5)), np.zeros((3, 5))
  for t, gradient in enumerate(gradients, start=1):
    mean = 0.95 * mean + 0.05 * gradient
    ahead = 0.95 * mean / (1 - 0.95 ** (t + 1))
    ahead += 0.05 * gradient / (1 - 0.95**t)
    weights = weights - 0.2 * np.sqrt(5) * orthogonal(ahead)
    close(moved[t - 1], weights)


def test_the_size_of_a_gradient_does_not_matter():
  small, large = (matrices(muon(), [k * GRADIENT] * 2) for k in (1e-3, 1e3))
  close(small, large)


def test_decay_of_weights_is_decoupled():
  start = np.array([[2.0, 0.0], [0.0, -1.0]])
  (moved,) = matrices(muon(lr=0.5, weight_decay=0.1), [GRADIENT], start)
  change = 0.2 * np.sqrt(2) * orthogonal(GRADIENT)
  close(moved, start - 0.5 * (change + 0.1 * start))


def test_both_parts_follow_one_schedule():
  tx = muon(lr=0.1, warmup=2, decay=6, schedule='schedules.linear')
  params = {**hidden(np.zeros((2, 2))), 'norm': jnp.zeros(2)}
  gradient = {**hidden(GRADIENT), 'norm': jnp.ones(2)}
  seen = run(tx, params, [gradient] * 7)
  rates = np.array([0, 0.05, 0.1, 0.075, 0.05, 0.025, 0])
  norms = np.array([each['norm'][0] for each in seen])
  close(-np.diff(norms, prepend=0), rates)
  change = 0.2 * np.sqrt(2) * orthogonal(GRADIENT)
  last = seen[-1]['layers']['0']['kernel']
  close(last, -rates.sum() * change)


def test_the_gradient_of_both_parts_is_clipped_together():
  # Moments that remember a smaller gradient show a scale.
  params = {**hidden(np.zeros((2, 2))), 'norm': jnp.zeros(2)}
  rng = np.random.default_rng(2)
  small, large = (
    {**hidden(k * rng.normal(size=(2, 2))), 'norm': jnp.asarray([k, 2.0 * k])}
    for k in (0.1, 30.0)
  )
  scale = 1 / np.sqrt(sum(np.sum(x**2) for x in jax.tree.leaves(large)))
  scaled = jax.tree.map(lambda x: scale * x, large)
  made = lambda max_norm, second: run(
    muon(b1=0.5, b2=0.5, max_norm=max_norm), params, [small, second]
  )[1]
  jax.tree.map(close, made(1.0, large), made(1e9, scaled))
  free = made(1e9, large)
  for name in ('norm', 'layers'):
    gap = jax.tree.map(
      lambda x, y: np.abs(x - y).max(), free[name], made(1.0, large)[name]
    )
    assert max(jax.tree.leaves(gap)) > 1e-3


@functools.cache
def model_params():
  """Of an untied model with every kind of parameter."""
  size = sizes.tiny(31)._replace(tied=False, qkv_bias=True, qk_norm=True)
  params = transformer.make(size).init(jax.random.key(0))
  return heads.with_value_head(params, size.width)


def by_path(tree):
  return {
    jax.tree_util.keystr(path, simple=True, separator='/'): leaf
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
  }


def test_muon_has_the_matrices_of_the_layers_and_adamw_the_rest():
  params = model_params()
  rng = np.random.default_rng(3)
  gradient = jax.tree.map(
    lambda x: jnp.asarray(rng.normal(size=x.shape), x.dtype), params
  )
  seen = by_path(run(muon(lr=0.01), params, [gradient])[0])
  given, before = by_path(gradient), by_path(params)
  changes = {path: seen[path] - np.asarray(before[path]) for path in seen}
  # Without moments AdamW moves by the rate along the sign.
  signs = {
    path
    for path, change in changes.items()
    if np.allclose(change, -0.01 * np.sign(given[path]), atol=1e-5)
  }
  kernels = {path for path in changes if path.endswith('kernel')}
  assert changes.keys() - signs == kernels
  assert len(kernels) == 2 * 7
  assert {path.split('/')[0] for path in signs} == {
    'embed', 'head', 'layers', 'norm', functional.VALUE_HEAD
  }  # fmt: skip
  for path in kernels:
    scale = 0.2 * np.sqrt(max(given[path].shape))
    expected = -0.01 * scale * orthogonal(np.asarray(given[path], np.float64))
    np.testing.assert_allclose(changes[path], expected, atol=2e-5)


def test_a_sharded_matrix_takes_the_same_step():
  mesh = sharding.make_mesh(data=2, fsdp=4)
  gradient = np.random.default_rng(4).normal(size=(8, 12))
  expected = matrices(muon(), [gradient] * 2)
  params, placed = sharding.shard_params(
    (hidden(np.zeros((8, 12))), hidden(gradient)), mesh
  )
  seen = run(muon(), params, [placed] * 2)
  close([each['layers']['0']['kernel'] for each in seen], expected)


def test_frozen_parameters_have_no_moments():
  params = model_params()
  tx = optimizers.except_for(muon(), r'(?!layers/1/).*')
  state = by_path(tx.init(params))
  held = [x.shape for x in state.values() if x.ndim]
  below = jax.tree.map(jnp.shape, by_path(params['layers']['1']))
  matrices = [shape for shape in below.values() if len(shape) == 2]
  vectors = [shape for shape in below.values() if len(shape) == 1]
  # One moment of a matrix, two of the rest; and the iteration's constants.
  assert sorted(held) == sorted([*matrices, *vectors, *vectors, (3,)])
  gradient = jax.tree.map(jnp.ones_like, params)
  seen = by_path(run(tx, params, [gradient])[0])
  for path, before in by_path(params).items():
    moved = not np.array_equal(seen[path], before)
    assert moved == path.startswith('layers/1/'), path


def test_without_a_matrix_to_move_it_is_refused():
  tx = optimizers.except_for(muon(), r'.*kernel')
  with pytest.raises(ValueError, match='muon: no matrix of a layer is trained'):
    tx.init(model_params())


@pytest.mark.parametrize('missing', PLAIN)
def test_nothing_but_the_schedule_has_a_default(missing):
  keywords = {k: v for k, v in PLAIN.items() if k != missing}
  with pytest.raises(TypeError, match=missing):
    optimizers.muon(**keywords)
