"""Laws of the decoder: packing, padding, caching, rematerialization."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl.models import functional, heads, sizes, transformer

SIZE = sizes.tiny()._replace(tied=False)
KINDS = {
  'llama': SIZE,
  'qwen2': SIZE._replace(qkv_bias=True, family='qwen2'),
  'qwen3': SIZE._replace(qk_norm=True, head_dim=16, family='qwen3'),
  'qwen3_moe': sizes.tiny_moe(),
  'biased': SIZE._replace(qkv_bias=True, out_bias=True, tied=True),
}


@functools.cache
def _made(name='llama'):
  model, rng = transformer.make(KINDS[name]), np.random.default_rng(0)
  shapes = jax.eval_shape(model.init, jax.random.key(0))
  # No bias is 0 and no scale is 1, as they would be from init.
  draw = lambda x: jnp.asarray(0.3 * rng.normal(size=x.shape), x.dtype)
  return model, jax.tree.map(draw, shapes)


def _row(*tokens):
  return jnp.array([tokens], jnp.int32)


def _logp(model, params, tokens, positions, segments):
  hidden = jax.jit(model.apply)(params, tokens, positions, segments)
  return heads.columns(model, params, hidden, tokens, {'logp'})['logp'][0]


def _alone(model, params, tokens):
  positions = jnp.arange(tokens.shape[1])[None]
  return _logp(model, params, tokens, positions, jnp.ones_like(tokens))


@pytest.mark.parametrize(
  'size, count',
  [
    (sizes.smollm2_135m(), 134_515_008),
    (sizes.llama3_2_1b(), 1_235_814_400),
    (sizes.qwen3_0_6b(), 596_049_920),
    (sizes.qwen3_8b(), 8_190_735_360),
    (sizes.qwen3_30b_a3b(), 30_532_122_624),
  ],
  ids=[
    'smollm2_135m',
    'llama3_2_1b',
    'qwen3_0_6b',
    'qwen3_8b',
    'qwen3_30b_a3b',
  ],
)
def test_published_parameter_counts(size, count):
  def total(layers):
    init = transformer.make(size._replace(layers=layers)).init
    params = jax.eval_shape(init, jax.random.key(0))
    return sum(math.prod(x.shape) for x in jax.tree.leaves(params))

  assert total(1) + (size.layers - 1) * (total(2) - total(1)) == count


def test_shapes_and_names():
  model, params = _made()
  assert (model.vocab, model.context) == (97, 128)
  assert set(params) == {'embed', 'layers', 'norm', 'head'}
  assert set(params['layers']) == {'0', '1'}
  assert {x.dtype for x in jax.tree.leaves(params)} == {jnp.dtype('float32')}
  cache = model.cache(3, 7)
  assert len(cache) == 2
  for kept in cache:
    assert kept.keys.shape == (3, 2, 8, 7)
    assert kept.values.shape == (3, 2, 7, 8)


def test_init_depends_on_the_key_alone():
  model, _ = _made()
  first, again, other = map(model.init, map(jax.random.key, (3, 3, 4)))
  jax.tree.map(np.testing.assert_array_equal, first, again)
  assert not np.array_equal(
    first['embed']['embedding'], other['embed']['embedding']
  )


@pytest.mark.parametrize('name', ['llama', 'qwen3', 'qwen3_moe'])
def test_packing_changes_nothing(name):
  model, params = _made(name)
  one, two = (11, 12, 13), (21, 22, 2)
  positions, segments = (
    _row(0, 1, 2, 0, 1, 2, 0, 0),
    _row(*[1] * 3 + [2] * 3 + [0] * 2),
  )
  packed = _logp(model, params, _row(*one, *two, 0, 0), positions, segments)
  np.testing.assert_allclose(
    packed[1:3], _alone(model, params, _row(*one))[1:], atol=1e-5
  )
  np.testing.assert_allclose(
    packed[4:6], _alone(model, params, _row(*two))[1:], atol=1e-5
  )
  changed = _logp(model, params, _row(7, 8, 9, *two, 0, 0), positions, segments)
  np.testing.assert_array_equal(packed[4:6], changed[4:6])


def test_a_packed_neighbour_gets_no_gradient():
  model, params = _made()
  tokens, segments = _row(11, 12, 13, 21, 22, 2), _row(1, 1, 1, 2, 2, 2)

  def loss(params):
    hidden = model.apply(params, tokens, _row(0, 1, 2, 0, 1, 2), segments)
    columns = heads.columns(model, params, hidden, tokens, {'logp'})
    return columns['logp'][0, 4:].sum()

  rows = jax.jit(jax.grad(loss))(params)['embed']['embedding']
  assert (rows[jnp.array([11, 12, 13])] == 0).all()
  assert (jnp.abs(rows[jnp.array([21, 22])]).sum(-1) > 0).all()


@pytest.mark.parametrize('name', ['llama', 'qwen3_moe'])
def test_padding_on_either_side_changes_nothing(name):
  model, params = _made(name)
  tokens = (4, 5, 6, 7, 8)
  expected = _alone(model, params, _row(*tokens))[-2:]
  for pad in (3, 6):
    ids, count = [0] * pad, [*range(5)]
    left = _logp(
      model,
      params,
      _row(*ids, *tokens),
      _row(*ids, *count),
      _row(*ids, *[1] * 5),
    )
    right = _logp(
      model,
      params,
      _row(*tokens, *ids),
      _row(*count, *ids),
      _row(*[1] * 5, *ids),
    )
    np.testing.assert_allclose(left[-2:], expected, atol=1e-5)
    np.testing.assert_allclose(right[3:5], expected, atol=1e-5)


@pytest.mark.parametrize('name', ['llama', 'qwen3_moe'])
def test_nothing_but_padding_is_finite(name):
  model, params = _made(name)
  empty = jnp.zeros([2, 4], jnp.int32)

  def loss(params):
    hidden = model.apply(params, empty, empty, empty)
    cached, _ = model.extend(params, empty, empty - 1, model.cache(2, 4))
    return (hidden**2).sum() + (cached**2).sum()

  value, grads = jax.jit(jax.value_and_grad(loss))(params)
  assert jnp.isfinite(value)
  assert all(jnp.isfinite(x).all() for x in jax.tree.leaves(grads))


@pytest.mark.parametrize('name', KINDS)
def test_extend_agrees_with_apply(name):
  model, params = _made(name)
  tokens = jax.random.randint(jax.random.key(2), [2, 9], 0, 97)
  positions = jnp.broadcast_to(jnp.arange(9), [2, 9])
  expected = jax.jit(model.apply)(
    params, tokens, positions, jnp.ones_like(tokens)
  )
  cache, found, extend = model.cache(2, 12), [], jax.jit(model.extend)
  for start, stop in ((0, 4), (4, 8), (8, 9)):
    hidden, cache = extend(
      params, tokens[:, start:stop], positions[:, start:stop], cache
    )
    found.append(hidden)
  np.testing.assert_allclose(jnp.concatenate(found, 1), expected, atol=1e-5)


def test_no_token_writes_nothing():
  model, params = _made()
  old = jax.tree.map(lambda x: x + 5.0, model.cache(2, 6))
  tokens = jnp.array([[3, 4, 5], [6, 7, 8]])
  positions = jnp.array([[2, -1, 3], [-1, -1, -1]])
  hidden, new = jax.jit(model.extend)(params, tokens, positions, old)
  assert jnp.isfinite(hidden).all()
  written = [[False, False, True, True, False, False], [False] * 6]
  for before, after in zip(old, new):
    keys, values = (a != b for a, b in zip(before, after))
    np.testing.assert_array_equal(keys.any((1, 2)), written)
    np.testing.assert_array_equal(values.any((1, 3)), written)


def test_later_slots_are_invisible():
  model, params = _made()
  clean = model.cache(1, 6)
  dirty = tuple(
    kept._replace(
      keys=kept.keys.at[..., 2:].set(1e9),
      values=kept.values.at[:, :, 2:].set(1e9),
    )
    for kept in clean
  )
  extend = jax.jit(model.extend)
  tokens, positions = _row(3, 4), _row(0, 1)
  expected, _ = extend(params, tokens, positions, clean)
  found, _ = extend(params, tokens, positions, dirty)
  np.testing.assert_array_equal(found, expected)


def test_remat_changes_nothing():
  tokens = jax.random.randint(jax.random.key(3), [2, 8], 0, 97)
  positions = jnp.broadcast_to(jnp.arange(8), [2, 8])
  _, params = _made()

  def grads(remat):
    model = transformer.make(SIZE, remat=remat)

    def loss(params):
      hidden = model.apply(params, tokens, positions, jnp.ones_like(tokens))
      return model.logits(params, hidden).std()

    text = str(jax.make_jaxpr(jax.grad(loss))(params))
    return text.count('remat'), jax.jit(jax.grad(loss))(params)

  (plain, expected), (layered, found) = grads('none'), grads('layer')
  assert plain == 0 < layered
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), found, expected
  )


def test_bfloat16_computes_in_it_and_answers_in_float32():
  model, params = _made('qwen3')
  half = transformer.make(KINDS['qwen3'], dtype='bfloat16')
  tokens = jax.random.randint(jax.random.key(4), [2, 8], 0, 97)
  args = tokens, jnp.broadcast_to(jnp.arange(8), [2, 8]), jnp.ones_like(tokens)
  hidden = jax.jit(half.apply)(params, *args)
  assert hidden.dtype == half.cache(1, 2)[0][0].dtype == jnp.bfloat16
  logits = half.logits(params, hidden)
  assert logits.dtype == jnp.float32
  exact = model.logits(params, jax.jit(model.apply)(params, *args))
  assert float(jnp.abs(logits - exact).mean() / exact.std()) < 0.03


def test_params_of_another_model_are_refused():
  model, params = _made()
  grown = {**params, 'norm': {'scale': jnp.ones([7])}}
  without = {k: v for k, v in params.items() if k != 'head'}
  hidden = jnp.zeros([1, 32])
  with pytest.raises(ValueError, match=r'norm/scale is \(7,\), expected'):
    model.logits(grown, hidden)
  with pytest.raises(ValueError, match='head/embedding is missing'):
    model.logits(without, hidden)
  with pytest.raises(ValueError, match='expected nothing there'):
    model.logits({**params, 'extra': jnp.ones([1])}, hidden)
  valued = {**params, functional.VALUE_HEAD: {'weight': jnp.ones([32])}}
  np.testing.assert_array_equal(
    model.logits(valued, hidden), model.logits(params, hidden)
  )


@pytest.mark.parametrize(
  'change, remat, match',
  [
    ({'kv_heads': 3}, 'none', 'no multiple of 3 kv_heads'),
    ({'head_dim': 7}, 'none', 'even head_dim'),
    ({'rope': sizes.Rope(1e4, 'longrope')}, 'none', "'longrope'"),
    ({}, 'all', "not 'all'"),
  ],
)
def test_what_does_not_fit_is_refused(change, remat, match):
  with pytest.raises(ValueError, match=match):
    transformer.make(SIZE._replace(**change), remat=remat)
