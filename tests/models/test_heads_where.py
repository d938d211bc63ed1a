"""Columns at chosen positions: the same numbers there, no work elsewhere."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl.models import heads, sizes, transformer

WANT = frozenset({'logp', 'entropy'})
ROWS, LENGTH, VOCAB = 3, 7, 31
WHERE = np.array(
  [
    [0, 0, 0, 1, 1, 0, 1],
    [0, 0, 0, 0, 0, 0, 0],
    [1, 1, 0, 0, 0, 0, 0],
  ],
  bool,
)


@functools.cache
def _case():
  model = transformer.make(sizes.tiny(VOCAB))
  keys = jax.random.split(jax.random.key(1), 3)
  hidden = jax.random.normal(keys[0], [ROWS, LENGTH, 32])
  tokens = jax.random.randint(keys[1], (ROWS, LENGTH), 0, VOCAB)
  return model, model.init(keys[2]), hidden, tokens


def _total(chunk, where, params, hidden):
  model, _, _, tokens = _case()
  made = heads.columns(
    model, params, hidden, tokens, WANT, chunk=chunk, where=where
  )
  total = sum(jnp.sum(jnp.where(WHERE, x, 0)) for x in made.values())
  return total, made


@pytest.mark.parametrize('chunk', [None, 1, 4, 64])
def test_the_same_columns_and_gradients_there_and_zero_elsewhere(chunk):
  _, params, hidden, _ = _case()
  grad = jax.jit(jax.grad(_total, (2, 3), has_aux=True), static_argnums=(0,))
  found, made = grad(chunk, jnp.array(WHERE), params, hidden)
  expected, everywhere = grad(chunk, None, params, hidden)
  close = functools.partial(np.testing.assert_allclose, atol=2e-6, rtol=1e-5)
  for name, column in made.items():
    close(column, np.where(WHERE, everywhere[name], 0))
  jax.tree.map(close, found, expected)
  assert np.abs(found[1]).sum() > 1


@pytest.mark.parametrize('chunk, chunks', [(1, 4), (3, 3), (4, 2), (64, 1)])
def test_only_chunks_with_a_position_are_computed(chunk, chunks):
  model, params, hidden, tokens = _case()
  computed = []

  def logits(params, hidden):
    jax.debug.callback(lambda: computed.append(1))
    return model.logits(params, hidden)

  run = lambda where: heads.columns(
    model._replace(logits=logits), params, hidden, tokens, WANT, chunk=chunk,
    where=where,
  )  # fmt: skip
  # Position 0 aside, the rows want three, none and one: places 0, 2, 3 and 6.
  jax.block_until_ready(jax.jit(run)(jnp.array(WHERE)))
  jax.effects_barrier()
  assert len(computed) == chunks
  computed.clear()
  jax.block_until_ready(jax.jit(run)(jnp.zeros_like(WHERE)))
  jax.effects_barrier()
  assert not computed
