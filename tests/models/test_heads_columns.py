"""Columns of several numbers a token: categorical critics and features."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl.models import heads, sizes, transformer

ROWS, LENGTH, VOCAB, WIDTH, BINS = 2, 5, 19, 32, 7
WANT = frozenset({'logp', 'value_logits', 'features'})
WHERE = np.array([[0, 1, 1, 0, 1], [0, 0, 0, 1, 0]], bool)


@functools.cache
def _case():
  model = transformer.make(sizes.tiny(VOCAB))
  keys = jax.random.split(jax.random.key(0), 5)
  params = heads.with_value_head(model.init(keys[0]), WIDTH, BINS)
  params['embed'] = {'embedding': jax.random.normal(keys[1], [VOCAB, WIDTH])}
  params['value_head'] = {
    'weight': jax.random.normal(keys[2], [WIDTH, BINS]),
    'bias': jax.random.normal(keys[3], [BINS]),
  }
  hidden = jax.random.normal(keys[4], [ROWS, LENGTH, WIDTH])
  tokens = jax.random.randint(keys[0], (ROWS, LENGTH), 0, VOCAB)
  return model, params, hidden, tokens


@functools.partial(jax.jit, static_argnames=('want', 'chunk', 'wide'))
def _columns(where=None, temperature=1.0, *, want=WANT, chunk=None, wide=None):
  del wide  # the number of features, so that it compiles anew
  return heads.columns(
    *_case(), want, temperature=temperature, chunk=chunk, where=where
  )


def test_value_logits_are_a_linear_read_of_the_state_before():
  _, params, hidden, _ = _case()
  made = _columns(want=frozenset({'value_logits'}))['value_logits']
  head = params['value_head']
  want = hidden[:, :-1] @ head['weight'] + head['bias'].reshape(1, 1, BINS)
  assert made.shape == (ROWS, LENGTH, BINS) and made.dtype == jnp.float32
  np.testing.assert_allclose(made[:, 1:], want, atol=1e-5)
  assert not np.any(made[:, 0])


def test_a_new_categorical_head_says_nothing():
  model, params, hidden, tokens = _case()
  bare = {k: v for k, v in params.items() if k != 'value_head'}
  fresh = heads.with_value_head(bare, WIDTH, BINS)
  assert fresh['value_head']['weight'].shape == (WIDTH, BINS)
  assert fresh['value_head']['bias'].shape == (BINS,)
  made = heads.columns(
    model._replace(logits=None), fresh, hidden, tokens, {'value_logits'}
  )
  np.testing.assert_array_equal(made['value_logits'], 0)


@pytest.mark.parametrize('chunk', [None, 1, 3, 64])
def test_neither_chunks_nor_places_change_them(chunk):
  whole = _columns()
  made, some = _columns(chunk=chunk), _columns(jnp.asarray(WHERE), chunk=chunk)
  assert made.keys() == WANT
  for name, column in whole.items():
    np.testing.assert_allclose(made[name], column, atol=1e-5)
    on = WHERE.reshape(ROWS, LENGTH, *(1,) * (column.ndim - 2))
    np.testing.assert_allclose(some[name], np.where(on, column, 0), atol=1e-5)


def test_a_head_of_another_kind_is_refused():
  model, params, hidden, tokens = _case()
  bare = {k: v for k, v in params.items() if k != 'value_head'}
  cases = (
    ('value', BINS, r'does not fit a value head of \(7,\)'),
    ('value_logits', 0, 'does not fit a value head of one number; heads.with'),
  )
  for name, bins, words in cases:
    head = heads.with_value_head(bare, WIDTH, bins)
    with pytest.raises(ValueError, match=words):
      heads.columns(model, head, hidden, tokens, {name})


# Features: the inner products of gradients, in expectation.


def _gradients(temperature):
  """The gradient of each token's log-prob in the head: [n, V * D], exact."""
  _, params, hidden, tokens = _case()
  states = np.asarray(hidden[:, :-1], float).reshape(-1, WIDTH)
  targets = np.asarray(tokens[:, 1:]).reshape(-1)

  def logp(table, state, target):
    return jax.nn.log_softmax(table @ state / temperature)[target]

  table = params['embed']['embedding']
  each = jax.vmap(jax.grad(logp), (None, 0, 0))
  made = each(table, jnp.asarray(states, jnp.float32), targets)
  return np.asarray(made).reshape(len(targets), -1)


def _products(rows):
  return rows @ rows.T


def _features(temperature=1.0, wide=None):
  made = _columns(
    temperature=temperature, want=frozenset({'features'}), wide=wide
  )['features']
  return np.asarray(made[:, 1:]).reshape(ROWS * (LENGTH - 1), -1)


def _error(features, temperature):
  """How far the products are off, as a share of the products' norm."""
  exact = _products(_gradients(temperature))
  off = np.linalg.norm(_products(features) - exact)
  return off / np.linalg.norm(exact)


@pytest.mark.parametrize('temperature', [1.0, 0.5])
def test_more_features_come_closer_to_the_products(monkeypatch, temperature):
  errors = []
  for wide in ((4, 4), (64, 64), (256, 1024)):
    monkeypatch.setattr(heads, 'FEATURES', wide)
    features = _features(temperature, wide)
    assert features.shape[1] == wide[0] * wide[1]
    errors.append(_error(features, temperature))
  assert errors[0] > errors[1] > errors[2]
  assert errors[2] < 0.15


def test_products_are_right_in_the_mean_over_signs(monkeypatch):
  model, params, hidden, tokens = _case()
  exact, one_off = _products(_gradients(1.0)), _error(_features(), 1.0)
  states, targets = hidden[:, :-1].reshape(-1, WIDTH), tokens[:, 1:].reshape(-1)
  logs = jax.nn.log_softmax(model.logits(params, states))
  draw, products = jax.random.key, []
  for seed in range(64):
    monkeypatch.setattr(jax.random, 'key', lambda _, seed=seed: draw(seed))
    products.append(
      _products(np.asarray(heads._features(logs, states, targets)))
    )
  off = np.linalg.norm(np.mean(products, 0) - exact) / np.linalg.norm(exact)
  assert off < one_off / 3


def test_features_are_the_same_in_every_call():
  first = _features()
  np.testing.assert_array_equal(first, _features(wide='again'))
  assert first.shape == (8, 64)
  assert np.linalg.matrix_rank(first) == 8
