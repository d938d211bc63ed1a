"""What is saved for the backward pass changes memory, and not the result."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core

from arl.models import blocks, heads, sizes, transformer

SIZE = sizes.tiny(64)._replace(layers=4, context=256)
TOKENS = jax.random.randint(jax.random.key(1), (4, 64), 0, 64)
SEEN = TOKENS, jnp.arange(64)[None] + 0 * TOKENS, jnp.ones_like(TOKENS)


@pytest.fixture(autouse=True)
def small(monkeypatch):
  monkeypatch.setattr(blocks, 'BLOCK', 16)


@functools.cache
def gradient(remat, dtype='float32'):
  """(params, segments) -> the gradient, compiled, and params."""
  model = transformer.make(SIZE, dtype, remat)

  def loss(params, segments):
    hidden = model.apply(params, *SEEN[:2], segments)
    where = segments > 0
    made = heads.columns(
      model, params, hidden, TOKENS, {'logp'}, where=where, chunk=32
    )
    return made['logp'].sum()

  params = model.init(jax.random.key(0))
  return jax.jit(jax.grad(loss)).lower(params, SEEN[2]).compile(), params


@pytest.mark.parametrize('remat', transformer.REMAT[1:])
def test_the_gradient_is_the_same(remat):
  made, params = gradient(remat)
  expected = gradient('none')[0](params, SEEN[2])
  close = functools.partial(np.testing.assert_allclose, atol=1e-4)
  jax.tree.map(close, made(params, SEEN[2]), expected)


def test_the_less_is_saved_the_less_memory():
  used = [
    gradient(remat)[0].memory_analysis().temp_size_in_bytes
    for remat in transformer.REMAT
  ]
  assert used == sorted(used, reverse=True)
  assert used[-1] < used[0] / 3


def test_a_batch_of_padding_has_no_gradient():
  made, params = gradient('layer')
  for each in jax.tree.leaves(made(params, 0 * TOKENS)):
    np.testing.assert_array_equal(each, 0)


@pytest.mark.parametrize('remat', ['attention', 'products'])
def test_in_half_precision(remat):
  made, params = gradient(remat, 'bfloat16')
  leaves = jax.tree.leaves(made(params, SEEN[2]))
  expected = jax.tree.leaves(gradient('none')[0](params, SEEN[2]))
  for a, b in zip(leaves, expected, strict=True):
    assert a.dtype == jnp.float32
    size = float(jnp.abs(b).max())
    np.testing.assert_allclose(a, b, atol=0.1 * size)


SUMS = frozenset({
  'cumsum', 'reduce_max', 'reduce_sum', 'scatter-add', 'exp', 'log', 'div',
})  # fmt: skip


def equations(jaxpr):
  for equation in jaxpr.eqns:
    yield equation
    for inner in core.jaxprs_in_params(equation.params):
      yield from equations(inner)


@pytest.mark.parametrize('remat', transformer.REMAT)
def test_sums_and_log_probs_are_never_in_half_precision(remat):
  model = transformer.make(SIZE, 'bfloat16', remat)

  def loss(params):
    hidden = model.apply(params, *SEEN)
    return heads.columns(
      model, params, hidden, TOKENS, {'logp', 'entropy'}, chunk=32
    )['logp'].sum()

  params = jax.eval_shape(model.init, jax.random.key(0))
  made = list(equations(jax.make_jaxpr(jax.grad(loss))(params).jaxpr))
  half = {
    each.primitive.name
    for each in made
    for x in each.invars
    if x.aval.dtype == jnp.bfloat16
  }
  assert 'dot_general' in half
  assert not half & SUMS
  assert SUMS & {each.primitive.name for each in made}
