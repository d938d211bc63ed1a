"""Choosing tokens: the distributions, and randomness that belongs to a row."""

import functools
import math

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl.rollout import sampler

PROBS = np.array([0.5, 0.3, 0.15, 0.05])
PLAIN = sampler.Rule(greedy=False, truncated=False)
TRUNCATED = sampler.Rule(greedy=False, truncated=True)
GREEDY = sampler.Rule(greedy=True, truncated=False)


@functools.partial(jax.jit, static_argnums=(1, 2))
def _draw(logits, count, rule, temperature, top_p, top_k):
  """Ids and log-probs [count] of one row of logits [V]."""
  paths = jnp.arange(count, dtype=jnp.int32)[:, None]
  rows = jnp.broadcast_to(logits, (count, logits.size))
  keys = sampler.fold(11, paths)
  return sampler.choose(rows, keys, rule, temperature, top_p, top_k)


def draw(logits, rule, temperature=1.0, top_p=1.0, top_k=0, count=8192):
  logits = jnp.asarray(logits, jnp.float32)
  numbers = jnp.float32(temperature), jnp.float32(top_p), jnp.int32(top_k)
  ids, logp = jax.device_get(_draw(logits, count, rule, *numbers))
  assert (ids.dtype, logp.dtype) == (np.int32, np.float32)
  return ids, logp


def check_draws(ids, logp, probs):
  """Frequencies fit the probabilities, and log-probs are their logs."""
  counts = np.bincount(ids, minlength=len(probs))
  kept = probs > 0
  assert not counts[~kept].any()
  expected = len(ids) * probs[kept]
  surprise = np.sum((counts[kept] - expected) ** 2 / expected)
  freedom = np.sum(kept) - 1
  assert surprise < freedom + 5 * math.sqrt(2 * freedom) + 1e-9
  np.testing.assert_allclose(logp, np.log(probs[ids]), atol=2e-6)


@pytest.mark.parametrize(
  'order', [[0, 1, 2, 3], [3, 1, 0, 2], [2, 3, 1, 0]], ids=str
)
def test_top_p(order):
  ids, logp = draw(np.log(PROBS)[order], TRUNCATED, top_p=0.8)
  check_draws(ids, logp, np.array([0.625, 0.375, 0, 0])[order])
  np.testing.assert_allclose(logp[ids == order.index(1)], -0.98083, atol=5e-6)


@pytest.mark.parametrize(
  'top_p, top_k, probs',
  [
    (1.0, 1, [1, 0, 0, 0]),
    (1.0, 3, [0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0]),
    (1.0, 99, PROBS),
    (0.01, 0, [1, 0, 0, 0]),
    (0.51, 0, [0.625, 0.375, 0, 0]),
    (0.96, 0, PROBS),
    # The nucleus is one of the top k: of 0.625 and 0.375 the first holds 0.6.
    (0.6, 2, [1, 0, 0, 0]),
  ],
)
def test_truncation(top_p, top_k, probs):
  ids, logp = draw(np.log(PROBS), TRUNCATED, top_p=top_p, top_k=top_k)
  check_draws(ids, logp, np.array(probs, float))


@pytest.mark.parametrize(
  'temperature, logp_of_1',
  [(0.5, -2.14293), (1.0, -1.40761), (1.5, -1.241601)],
)
def test_temperature(temperature, logp_of_1):
  probs = np.exp(np.array([2.0, 1, 0]) / temperature)
  ids, logp = draw([2.0, 1, 0], PLAIN, temperature)
  check_draws(ids, logp, probs / probs.sum())
  np.testing.assert_allclose(logp[ids == 1], logp_of_1, atol=5e-6)


def test_temperature_comes_before_truncation():
  ids, logp = draw([2.0, 1, 0], TRUNCATED, temperature=0.5, top_p=0.9)
  probs = np.exp([4.0, 2])
  check_draws(ids, logp, np.append(probs / probs.sum(), 0))


def test_masked_ids_are_never_drawn():
  ids, logp = draw([-3, -1, -2, -np.inf, -np.inf], PLAIN, count=10_000)
  assert set(ids) == {0, 1, 2}
  np.testing.assert_allclose(logp[ids == 1], -0.40761, atol=5e-6)


def test_greedy():
  # The numbers are ignored; log-probs are those at temperature 1.
  ids, logp = draw([2.0, 1, 0], GREEDY, temperature=0.0, top_p=0.1, count=4)
  assert ids.tolist() == [0, 0, 0, 0]
  np.testing.assert_allclose(logp, -0.40761, atol=5e-6)
  ids, logp = draw([1.0, 3, 3], GREEDY, count=1)
  assert ids.tolist() == [1]
  np.testing.assert_allclose(logp, -0.758624, atol=5e-6)


def entropies(logits, rule, temperature=1.0, top_p=1.0, top_k=0):
  rows = jnp.asarray(logits, jnp.float32)
  keys = sampler.fold(3, jnp.arange(len(rows), dtype=jnp.int32)[:, None])
  numbers = jnp.float32(temperature), jnp.float32(top_p), jnp.int32(top_k)
  ids, logp, entropy = sampler.choose(
    rows, keys, rule._replace(entropy=True), *numbers
  )
  plain = sampler.choose(rows, keys, rule, *numbers)
  np.testing.assert_array_equal(ids, plain[0])
  np.testing.assert_array_equal(logp, plain[1])
  assert entropy.dtype == jnp.float32 and entropy.shape == (len(rows),)
  return entropy


def entropy_of(probs):
  probs = np.asarray(probs, float)
  return -np.sum(probs * np.log(probs))


def test_entropy_is_of_what_was_sampled_from():
  logits = [np.log(PROBS), np.log(PROBS[::-1])]
  wanted = entropy_of(PROBS)
  np.testing.assert_allclose(entropies(logits, PLAIN), wanted, rtol=1e-6)
  flat = PROBS**2 / np.sum(PROBS**2)
  np.testing.assert_allclose(
    entropies(logits, PLAIN, temperature=0.5), entropy_of(flat), rtol=1e-5
  )
  np.testing.assert_allclose(
    entropies(logits, TRUNCATED, top_p=0.8),
    entropy_of([0.625, 0.375]),
    rtol=1e-6,
  )
  np.testing.assert_array_equal(entropies(logits, TRUNCATED, top_k=1), 0)


def test_entropy_of_greedy_is_that_at_temperature_one():
  logits = [np.log(PROBS)]
  for temperature in (0.0, 0.5):
    made = entropies(logits, GREEDY, temperature=temperature)
    np.testing.assert_allclose(made, entropy_of(PROBS), rtol=1e-6)


def test_entropy_of_certain_and_of_masked_logits_is_finite():
  logits = [[0, -np.inf, -np.inf], [1e4, 0, -1e4], [2, 2, -np.inf]]
  made = entropies(logits, PLAIN)
  np.testing.assert_allclose(made, [0, 0, np.log(2)], atol=1e-6)


def slow_keep(logits, top_p, top_k):
  """Which of the logits a reader of the paper would keep; None on the edge."""
  order = sorted(range(len(logits)), key=lambda i: -logits[i])
  order = order[: top_k or len(order)]
  mass = [math.exp(logits[i]) for i in order]
  kept, total = set(), 0.0
  for i, m in zip(order, mass):
    if abs(total - top_p) < 1e-5 and top_p < 1:
      return None
    if total < top_p or top_p == 1:
      kept.add(i)
    total += m / sum(mass)
  return kept


_keep = jax.jit(sampler._keep)


@hypothesis.given(
  st.lists(st.integers(-20, 20), min_size=6, max_size=6, unique=True),
  st.one_of(st.just(1.0), st.floats(0.01, 1)),
  st.integers(0, 7),
)
@hypothesis.settings(deadline=None, max_examples=60)
@hypothesis.example([0, 1, 2, 3, 4, 10], 1.0, 2)
@hypothesis.example([-20, 20, -19, -18, -17, -16], 1.0, 6)
def test_keep_as_the_slow_twin(quarters, top_p, top_k):
  logits = [q / 4 for q in quarters]
  wanted = slow_keep(logits, top_p, top_k)
  hypothesis.assume(wanted is not None)
  row = np.array([logits], np.float32)
  kept = np.array(_keep(row, jnp.float32(top_p), jnp.int32(top_k))[0])
  assert set(np.flatnonzero(np.isfinite(kept))) == wanted
  np.testing.assert_array_equal(kept[sorted(wanted)], row[0, sorted(wanted)])


def test_a_row_keeps_its_randomness_in_any_batch():
  paths = jnp.array([[0, 1], [1, 0], [0, 0], [5, 7]], jnp.int32)
  fold = jax.jit(sampler.fold, static_argnums=0)
  keys = jax.random.key_data(fold(3, paths))
  assert len({tuple(key) for key in keys.tolist()}) == 4
  for i, (a, b) in enumerate(paths.tolist()):
    alone = jax.random.key_data(fold(3, paths[i : i + 1]))
    np.testing.assert_array_equal(alone[0], keys[i])
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(3), a), b)
    np.testing.assert_array_equal(jax.random.key_data(key), keys[i])
  other = jax.random.key_data(fold(4, paths))
  assert not np.any(np.all(other == keys, axis=1))


def test_the_default_generator_does_not_matter():
  paths = jnp.array([[1, 2], [3, 4]], jnp.int32)
  keys = jax.random.key_data(sampler.fold(3, paths))
  with jax.default_prng_impl('unsafe_rbg'):
    again = jax.random.key_data(sampler.fold(3, paths))
  np.testing.assert_array_equal(keys, again)
