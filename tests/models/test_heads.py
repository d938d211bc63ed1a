"""Columns from hidden states, against float64 numpy and literal numbers."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl.models import heads, sizes, transformer

WANT = frozenset({'logp', 'entropy', 'value'})
ROWS, LENGTH, VOCAB = 3, 6, 97


@functools.cache
def _case():
  model = transformer.make(sizes.tiny(VOCAB))
  params = heads.with_value_head(model.init(jax.random.key(0)), 32)
  keys = jax.random.split(jax.random.key(1), 4)
  params['value_head'] = {
    'weight': jax.random.normal(keys[0], [32]),
    'bias': jnp.float32(0.25),
  }
  params['embed'] = {'embedding': jax.random.normal(keys[1], [VOCAB, 32])}
  hidden = jax.random.normal(keys[2], [ROWS, LENGTH, 32])
  return (
    model,
    params,
    hidden,
    jax.random.randint(keys[3], (ROWS, LENGTH), 0, VOCAB),
  )


def _slow(params, hidden, tokens, temperature):
  """All columns, a position at a time, in float64."""
  head = params['value_head']
  table, weight, hidden = (
    np.asarray(x, np.float64)
    for x in (params['embed']['embedding'], head['weight'], hidden)
  )
  out = {name: np.zeros([ROWS, LENGTH]) for name in WANT}
  for row in range(ROWS):
    for t in range(1, LENGTH):
      scores = table @ hidden[row, t - 1] / temperature
      logs = scores - scores.max()
      logs = logs - np.log(np.exp(logs).sum())
      out['logp'][row, t] = logs[tokens[row, t]]
      out['entropy'][row, t] = -(np.exp(logs) * logs).sum()
      out['value'][row, t] = weight @ hidden[row, t - 1] + float(head['bias'])
  return out


@pytest.mark.parametrize('temperature', [1.0, 0.7])
@pytest.mark.parametrize('chunk', [None, 1, 4, 15, 64])
def test_columns_agree_with_numpy(chunk, temperature):
  model, params, hidden, tokens = _case()
  run = lambda temperature: heads.columns(
    model, params, hidden, tokens, WANT, temperature=temperature, chunk=chunk
  )
  found = jax.jit(run)(jnp.float32(temperature))
  expected = _slow(params, hidden, tokens, temperature)
  assert found.keys() == WANT
  for name, column in found.items():
    assert column.dtype == jnp.float32
    np.testing.assert_allclose(column, expected[name], atol=2e-5, rtol=2e-5)
    np.testing.assert_array_equal(column[:, 0], 0)


@pytest.mark.parametrize('chunk', [1, 4, 64])
def test_chunks_change_no_gradient(chunk):
  model, params, hidden, tokens = _case()
  weights = jax.random.normal(jax.random.key(5), [3, ROWS, LENGTH])

  def loss(params, hidden, chunk):
    made = heads.columns(model, params, hidden, tokens, WANT, chunk=chunk)
    return sum((made[k] * w).sum() for k, w in zip(sorted(made), weights))

  grad = jax.jit(jax.grad(loss, (0, 1)), static_argnums=2)
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5, rtol=1e-5),
    grad(params, hidden, chunk),
    grad(params, hidden, None),
  )


def test_no_array_is_wider_than_a_chunk():
  model, params, hidden, tokens = _case()

  def loss(hidden, chunk):
    made = heads.columns(
      model, params, hidden, tokens, {'logp', 'entropy'}, chunk=chunk
    )
    return made['logp'].sum() + made['entropy'].sum()

  def widest(chunk):
    text = str(jax.make_jaxpr(jax.grad(lambda h: loss(h, chunk)))(hidden))
    shapes = re.findall(rf'f32\[([\d,]+),{VOCAB}\]', text)
    return max(int(np.prod([int(n) for n in s.split(',')])) for s in shapes)

  assert widest(None) == ROWS * (LENGTH - 1)
  assert widest(2) == 2


def _logits_as_hidden():
  return transformer.make(sizes.tiny(3))._replace(
    logits=lambda params, hidden: hidden
  )


def test_temperature_literal():
  hidden = jnp.array([[[2.0, 1.0, 0.0], [0.0, 0.0, 0.0]]])
  made = heads.columns(
    _logits_as_hidden(),
    {},
    hidden,
    jnp.array([[0, 1]]),
    {'logp', 'entropy'},
    temperature=0.5,
  )
  np.testing.assert_allclose(made['logp'], [[0, -2.14293]], atol=1e-5)
  chances = np.exp([4, 2, 0]) / np.exp([4, 2, 0]).sum()
  np.testing.assert_allclose(
    made['entropy'][0, 1], -(chances * np.log(chances)).sum(), rtol=1e-5
  )


def test_uniform_literal():
  made = heads.columns(
    _logits_as_hidden(),
    {},
    jnp.zeros([1, 3, 3]),
    jnp.array([[0, 1, 2]]),
    {'entropy'},
  )
  np.testing.assert_allclose(
    made['entropy'], [[0, 1.098612, 1.098612]], rtol=1e-6
  )


def test_value_alone_computes_no_logits():
  model, params, hidden, tokens = _case()
  blind = model._replace(logits=None)
  made = heads.columns(blind, params, hidden, tokens, {'value'})
  np.testing.assert_allclose(
    made['value'], _slow(params, hidden, tokens, 1.0)['value'], atol=1e-5
  )


def test_a_new_value_head_says_zero():
  model, params, hidden, tokens = _case()
  params = {k: v for k, v in params.items() if k != 'value_head'}
  made = heads.columns(
    model, heads.with_value_head(params, 32), hidden, tokens, {'value'}
  )
  np.testing.assert_array_equal(made['value'], 0)
  assert 'value_head' not in params


def test_bad_requests_are_refused():
  model, params, hidden, tokens = _case()
  bare = {k: v for k, v in params.items() if k != 'value_head'}
  with pytest.raises(ValueError, match=r"not \['logits'\]"):
    heads.columns(model, params, hidden, tokens, {'logits'})
  with pytest.raises(ValueError, match='with_value_head'):
    heads.columns(model, bare, hidden, tokens, {'value'})
  with pytest.raises(ValueError, match='positive number of tokens, not 0'):
    heads.columns(model, params, hidden, tokens, {'logp'}, chunk=0)
  with pytest.raises(ValueError, match='already have a value head'):
    heads.with_value_head(params, 32)
