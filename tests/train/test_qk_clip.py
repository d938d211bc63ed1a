"""QK-clip: nothing over tau stays over it, nothing else is touched."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies

from arl.models import heads, sizes, transformer
from arl.train import qk_clip, sharding

ONE = sizes.tiny(31)._replace(layers=1, heads=6, kv_heads=3, qkv_bias=True)
KINDS = {
  'grouped': ONE,
  'single': ONE._replace(kv_heads=6),
  'shared': ONE._replace(kv_heads=1),
  'two layers': ONE._replace(layers=2),
}
close = functools.partial(np.testing.assert_allclose, rtol=1e-5)


def columns(rows=8):
  """Two packed sequences and padding a row; the last two rows are filler."""
  shape = rows, 12
  segments = np.repeat([[1] * 5 + [2] * 4 + [0] * 3], rows, axis=0)
  segments[-2:] = 0
  positions = np.repeat([[*range(5), *range(4), 0, 0, 0]], rows, axis=0)
  tokens = np.random.default_rng(3).integers(0, 31, shape)
  made = {'tokens': tokens, 'positions': positions, 'segments': segments}
  return {name: jnp.asarray(x, jnp.int32) for name, x in made.items()} | {
    'mask': jnp.asarray(segments > 0)
  }


@functools.cache
def case(name):
  model, rng = transformer.make(KINDS[name]), np.random.default_rng(0)
  shapes = jax.eval_shape(model.init, jax.random.key(0))
  draw = lambda x: jnp.asarray(0.5 * rng.normal(size=x.shape), x.dtype)
  return model, jax.tree.map(draw, shapes)


def maxima(model, params):
  seen = (columns()[name] for name in ('tokens', 'positions', 'segments'))
  return np.asarray(jax.jit(model.attention_maxima)(params, *seen))


def clip(model, tau, *, frozen='', microbatch=2, mesh=(1, 1)):
  mesh = sharding.make_mesh(data=mesh[0], fsdp=mesh[1])
  made = qk_clip.make(
    model, tau=tau, frozen=frozen, microbatch=microbatch, mesh=mesh
  )
  return jax.jit(made)


def by_head(attention, part, heads):
  """[H, D, N] and [H, N] of the query's or key's kernel and bias."""
  kernel, bias = (np.asarray(attention[part][k]) for k in ('kernel', 'bias'))
  width = len(kernel)
  return kernel.reshape(width, heads, -1).swapaxes(0, 1), bias.reshape(
    heads, -1
  )


# --- Factors ------------------------------------------------------------------


def test_a_head_by_hand():
  query, key = qk_clip.scales(jnp.array([250.0]), 1, 100.0)
  close(query, [0.632456])
  close(key, [0.632456])
  close(query * key, [0.4])


def test_a_group_by_hand():
  # The first key head is shared by 400 and 50, the second by 100 and 144.
  query, key = qk_clip.scales(jnp.array([400.0, 50.0, 100.0, 144.0]), 2, 100.0)
  close(query, [0.5, 1, 1, 10 / 12])
  close(key, [0.5, 10 / 12])


@pytest.mark.parametrize('under', [100.0, 3.0, 0.0, -7.0, -np.inf])
def test_a_head_at_or_under_tau_has_the_factor_one(under):
  for factor in qk_clip.scales(jnp.array([under]), 1, 100.0):
    assert float(factor[0]) == 1.0


@pytest.mark.parametrize('broken', [np.inf, np.nan])
def test_a_head_without_a_finite_logit_is_left(broken):
  for factor in qk_clip.scales(jnp.array([broken, 1.0]), 1, 100.0):
    np.testing.assert_array_equal(factor, np.ones_like(factor))


FLOATS = strategies.floats(-1e4, 1e4, width=32)


@settings(deadline=None, max_examples=50)
@given(
  strategies.lists(FLOATS, min_size=6, max_size=6),
  strategies.sampled_from([1, 2, 3, 6]),
  strategies.floats(0.125, 1000, width=32),
)
def test_no_head_stays_over_tau(seen, kv_heads, tau):
  query, key = map(
    np.asarray, qk_clip.scales(jnp.array(seen, jnp.float32), kv_heads, tau)
  )
  after = np.array(seen) * query * np.repeat(key, 6 // kv_heads)
  assert (after <= tau * (1 + 1e-6)).all()
  groups = np.array(seen).reshape(kv_heads, -1)
  over = groups.max(1) > tau
  np.testing.assert_array_equal(key == 1, ~over)
  np.testing.assert_array_equal(query == 1, np.array(seen) <= tau)
  close(after.reshape(kv_heads, -1).max(1)[over], tau)


# --- Weights ------------------------------------------------------------------


@pytest.mark.parametrize('name', ['grouped', 'single', 'shared'])
def test_the_model_obeys_and_the_rest_keeps_its_bits(name):
  model, params = case(name)
  kv_heads = KINDS[name].kv_heads
  before = maxima(model, params)[0].reshape(kv_heads, -1)
  tau = float(np.sort(before.max(1))[kv_heads // 2]) * 0.9
  over = before.max(1) > tau
  assert over.any() and (kv_heads == 1 or not over.all())
  made, metrics = clip(model, tau)(params, columns())
  after = maxima(model, made)[0].reshape(kv_heads, -1)
  assert (after <= tau * (1 + 1e-5)).all()
  close(after.max(1)[over], tau)
  close(after[~over], before[~over])
  close(metrics['train/attention_max'], before.max())
  old, new = (p['layers']['0']['attention'] for p in (params, made))
  for part, heads_of in (('query', 6), ('key', kv_heads)):
    for x, y in zip(by_head(old, part, heads_of), by_head(new, part, heads_of)):
      same = (x == y).reshape(heads_of, -1).all(1)
      group = np.repeat(over, heads_of // kv_heads)
      assert same[~group].all()
      if part == 'key':
        assert not same[group].any()
      else:
        np.testing.assert_array_equal(~same, before.reshape(-1) > tau)


def test_only_queries_and_keys_are_scaled():
  model, params = case('two layers')
  made, _ = clip(model, 1.0)(params, columns())
  for old, new in zip(
    *map(jax.tree_util.tree_leaves_with_path, (params, made))
  ):
    path = jax.tree_util.keystr(old[0], simple=True, separator='/')
    moved = not np.array_equal(old[1], new[1])
    assert moved == ('/query/' in path or '/key/' in path), path


def test_deeper_layers_settle_one_a_time():
  # Scaling a layer changes what the next one sees.
  model, params = case('two layers')
  apply = clip(model, 1.0)
  once, _ = apply(params, columns())
  twice, _ = apply(once, columns())
  assert maxima(model, once)[0].max() <= 1 + 1e-5
  assert maxima(model, twice).max() <= 1 + 1e-5


# --- Batches ------------------------------------------------------------------


@pytest.mark.parametrize('microbatch, mesh', [(8, (1, 1)), (4, (2, 2))])
def test_microbatches_and_meshes_measure_the_whole(microbatch, mesh):
  model, params = case('two layers')
  expected, _ = clip(model, 1.0)(params, columns())
  placed = sharding.shard_params(
    params, sharding.make_mesh(data=mesh[0], fsdp=mesh[1])
  )
  made, _ = clip(model, 1.0, microbatch=microbatch, mesh=mesh)(
    placed, columns()
  )
  jax.tree.map(
    lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4), made, expected
  )


def test_rows_without_a_token_to_train_on_are_not_measured():
  model, params = case('grouped')
  some = columns()
  whole = maxima(model, params).max()
  row = int(np.argmax([_of_row(model, params, i) for i in range(6)]))
  order = np.array([*(i for i in range(8) if i != row), row])
  last = {name: x[order] for name, x in some.items()}
  last['mask'] = last['mask'].at[-1].set(False)
  _, metrics = clip(model, 1.0, microbatch=1)(params, last)
  assert float(metrics['train/attention_max']) < whole


def _of_row(model, params, row):
  names = ('tokens', 'positions', 'segments')
  one = (columns()[name][row : row + 1] for name in names)
  return float(jax.jit(model.attention_maxima)(params, *one).max())


def test_frozen_weights_stay_and_a_value_head_is_no_matter():
  model, params = case('two layers')
  params = heads.with_value_head(params, ONE.width)
  made, _ = clip(model, 1.0, frozen=r'(?!layers/1/).*')(params, columns())
  for name in ('embed', 'norm', 'value_head'):
    jax.tree.map(np.testing.assert_array_equal, made[name], params[name])
  low, high = (
    jax.tree.map(np.array_equal, made['layers'][i], params['layers'][i])
    for i in '01'
  )
  assert all(jax.tree.leaves(low)) and not all(jax.tree.leaves(high))


# --- Refusals -----------------------------------------------------------------


@pytest.mark.parametrize('tau', [0.0, -1.0, np.inf, np.nan])
def test_tau_is_positive(tau):
  with pytest.raises(ValueError, match=f'qk_clip: tau is {tau}; it must be'):
    clip(case('grouped')[0], tau)


def test_a_model_that_normalizes_is_refused():
  model = transformer.make(ONE._replace(qk_norm=True))
  with pytest.raises(
    ValueError, match='this model normalizes queries and keys'
  ):
    clip(model, 100.0)
