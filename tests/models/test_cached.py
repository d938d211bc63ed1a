"""What sampling keeps: attention as written out, in 8 bits as well."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arl.models import cached, sizes, transformer
from arl.rollout import decoding

B, N, K, G, D, S = 3, 2, 2, 3, 8, 20
POSITIONS = np.array([[4, 5], [19, -1], [0, 1]])


def numbers(seed, *shape):
  return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def filled(kind, seed=0):
  """A cache with tokens in all slots, and those tokens."""
  kept = cached.empty(B, K, S, D, jnp.float32, kind)
  key, value = numbers(seed, B, S, K, D), numbers(seed + 1, B, S, K, D)
  everywhere = np.broadcast_to(np.arange(S), (B, S))
  return cached.write(kept, everywhere, key, value), key, value


def by_loops(query, key, value):
  made = np.zeros_like(query)
  for b, n, k, g in np.ndindex(B, N, K, G):
    last = POSITIONS[b, n]
    if last < 0:
      continue
    q, ks = query[b, n, k, g].astype(float), key[b, : last + 1, k]
    weights = np.exp(ks @ q / np.sqrt(D))
    made[b, n, k, g] = weights @ value[b, : last + 1, k] / weights.sum()
  return made


@pytest.mark.parametrize('kind, bound', [('', 1e-6), ('int8', 2e-2)])
def test_attention_as_written_out(kind, bound):
  kept, key, value = filled(kind)
  query = numbers(2, B, N, K, G, D)
  made = np.asarray(jax.jit(cached.attend)(query, kept, POSITIONS))
  assert np.all(np.isfinite(made))
  real = (POSITIONS >= 0)[..., None, None, None]
  error = np.abs(np.where(real, made, 0) - by_loops(query, key, value)).max()
  assert error < bound
  if kind:
    # Exactly what the rounded numbers mean.
    scaled = lambda x, scale: (
      np.asarray(x, float) * np.asarray(scale)[..., None]
    )
    key = scaled(kept.keys.swapaxes(2, 3), kept.key_scales).swapaxes(1, 2)
    value = scaled(kept.values, kept.value_scales).swapaxes(1, 2)
    wanted = by_loops(query, key, value)
    np.testing.assert_allclose(np.where(real, made, 0), wanted, atol=2e-6)


@settings(deadline=None)
@given(st.integers(0, 2**31), st.floats(1e-6, 1e6))
def test_rounding_is_off_by_half_a_level(seed, scale):
  x = numbers(seed, 4, D) * np.float32(scale)
  levels, scales = cached._rounded(x)
  assert np.abs(levels).max() <= 127
  again = np.asarray(levels, float) * np.asarray(scales)[:, None]
  assert np.all(np.abs(again - x) <= 0.501 * np.asarray(scales)[:, None])


def test_zeros_are_kept():
  levels, scales = cached._rounded(np.zeros((2, D), np.float32))
  assert not np.any(levels) and not np.any(scales)


@pytest.mark.parametrize('kind', cached.KINDS)
def test_no_place_writes_nothing(kind):
  kept, key, value = filled(kind)
  nowhere = np.array([[-1, S], [S, -1], [-1, -1]])
  after = cached.write(kept, nowhere, key[:, :2], value[:, :2])
  jax.tree.map(np.testing.assert_array_equal, after, kept)


@pytest.mark.parametrize('kind', cached.KINDS)
@pytest.mark.parametrize('dim', [16, 64, 128])
def test_a_wider_cache_changes_no_bit(kind, dim):
  heads, slots, wide = 2, 64, 1088
  key, value, query = (
    numbers(i, 4, *shape)
    for i, shape in enumerate([(slots, heads, dim)] * 2 + [(1, heads, 3, dim)])
  )
  everywhere = np.broadcast_to(np.arange(slots), (4, slots))
  positions = np.array([[0], [17], [40], [63]])
  attend = jax.jit(cached.attend, compiler_options=decoding.options())
  made = []
  for width in (slots, wide):
    kept = cached.empty(4, heads, width, dim, jnp.float32, kind)
    kept = cached.write(kept, everywhere, key, value)
    made.append(attend(query, kept, positions))
  np.testing.assert_array_equal(*made)


def test_memory():
  """A fourth, and 4 bytes for each token and head."""
  count = lambda kind, dim: sum(
    x.nbytes for x in cached.empty(2, 4, 100, dim, jnp.float32, kind)
  )
  assert count('', 64) == 2 * 4 * 100 * 64 * 4 * 2
  assert count('int8', 64) * 256 == count('', 64) * 68


def test_a_model_with_8_bits_stays_close():
  exact = transformer.make(sizes.tiny())
  rounded = transformer.make(sizes.tiny(), cache='int8')
  params = exact.init(jax.random.key(0))
  params['embed']['embedding'] *= 50
  tokens = np.random.default_rng(0).integers(0, 97, (4, 12))
  places = np.broadcast_to(np.arange(12), (4, 12))
  logp = []
  for model in (exact, rounded):
    hidden, _ = model.extend(params, tokens, places, model.cache(4, 16))
    logp.append(jax.nn.log_softmax(model.logits(params, hidden)))
  difference = np.abs(logp[0] - logp[1])
  assert 1e-5 < difference.max() < 0.5 and difference.mean() < 0.05


def test_an_unknown_kind_is_refused():
  with pytest.raises(ValueError, match="'', 'int8'.* not 'int4'"):
    transformer.make(sizes.tiny(), cache='int4')
