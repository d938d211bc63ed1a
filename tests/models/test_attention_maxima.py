"""The largest attention logits against what attention itself was given."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl.models import blocks, sizes, transformer

SIZE = sizes.tiny()._replace(layers=3)
KINDS = {
  'grouped': SIZE,
  'biased': SIZE._replace(qkv_bias=True),
  'normed': SIZE._replace(qk_norm=True, head_dim=16),
  'single': SIZE._replace(kv_heads=4),
}
# Two sequences and padding in the first row, one after padding in the second.
SEGMENTS = jnp.array([[1, 1, 1, 2, 2, 2, 2, 0, 0], [0, 0, 0, 5, 5, 5, 5, 5, 5]])
POSITIONS = jnp.array(
  [[0, 1, 2, 0, 1, 2, 3, 0, 0], [0, 0, 0, 0, 1, 2, 3, 4, 5]]
)
TOKENS = jax.random.randint(jax.random.key(7), SEGMENTS.shape, 0, SIZE.vocab)


def made(name):
  model, rng = transformer.make(KINDS[name]), np.random.default_rng(0)
  shapes = jax.eval_shape(model.init, jax.random.key(0))
  draw = lambda x: jnp.asarray(0.5 * rng.normal(size=x.shape), x.dtype)
  return model, jax.tree.map(draw, shapes)


def by_loops(query, keys):
  """The largest logit of each head, pair by pair: a slow twin."""
  query, keys = np.asarray(query), np.asarray(keys)
  rows, length, groups, each, dim = query.shape
  best = np.full(groups * each, -np.inf)
  for row, t, head in np.ndindex(rows, length, groups * each):
    group, member = divmod(head, each)
    for s in range(t + 1):
      if SEGMENTS[row, t] and SEGMENTS[row, s] == SEGMENTS[row, t]:
        product = query[row, t, group, member] @ keys[row, group, s]
        best[head] = max(best[head], product / np.sqrt(dim))
  return best


@pytest.mark.parametrize('name', KINDS)
def test_of_the_pairs_that_attention_saw(name, monkeypatch):
  model, params = made(name)
  seen, attend = [], blocks.attend

  def watched(query, keys, values, segments):
    seen.append((query, keys))
    return attend(query, keys, values, segments)

  found = jax.jit(model.attention_maxima)(params, TOKENS, POSITIONS, SEGMENTS)
  monkeypatch.setattr(blocks, 'attend', watched)
  model.apply(params, TOKENS, POSITIONS, SEGMENTS)
  assert found.dtype == jnp.float32 and len(seen) == 3
  expected = [by_loops(*pair) for pair in seen]
  np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_packing_takes_the_larger():
  model, params = made('grouped')
  maxima = jax.jit(model.attention_maxima)
  packed = maxima(params, TOKENS, POSITIONS, SEGMENTS)
  alone = [
    maxima(params, TOKENS, POSITIONS, jnp.where(each == SEGMENTS, each, 0))
    for each in (1, 2, 5)
  ]
  np.testing.assert_allclose(packed, np.max(alone, axis=0), rtol=1e-5)
  assert (np.ptp(alone, axis=0) > 0).all()


def test_padding_has_none():
  model, params = made('grouped')
  empty = jnp.zeros_like(SEGMENTS)
  found = model.attention_maxima(params, TOKENS, POSITIONS, empty)
  np.testing.assert_array_equal(found, np.full((3, 4), -np.inf))


def test_one_token_sees_itself():
  model, params = made('single')
  one = jnp.zeros_like(SEGMENTS).at[0, 0].set(1)
  found = model.attention_maxima(params, TOKENS, POSITIONS, one)
  assert np.isfinite(found).all() and (np.asarray(found) < 0).any()
