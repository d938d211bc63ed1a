"""Pairs of a group: where mass moves, and what pulls the policy there."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl import levels
from arl.kernels import ratios, regressions

SEQ = levels.Level(jnp.arange(3, dtype=jnp.int32)[:, None], 3)
GROUP = levels.Level(jnp.zeros((3, 1), jnp.int32), 1)
MASK = jnp.asarray([[True, False], [True, False], [True, False]])
OLD = jnp.log(jnp.asarray([[0.3], [0.5], [0.2]]))


def _padded(x, bad=0.0):
  return jnp.pad(x, ((0, 0), (0, 1)), constant_values=bad)


def _move(rewards):
  rewards = _padded(jnp.asarray(rewards)[:, None], jnp.nan)
  return regressions.moved_mass(rewards, MASK, SEQ, GROUP)


def _pair(logp, move, iteration=0, old=OLD, **more):
  """The objective of the group, all candidates of one token."""
  return regressions.pair_hard(
    _padded(logp, jnp.nan),
    _padded(old, jnp.nan),
    jnp.where(MASK, move, jnp.nan),
    iteration,
    MASK,
    SEQ,
    GROUP,
    **more,
  )[0, 0]


def _relative(logp, move, iteration=0, **more):
  return regressions.pair_hard_relative(
    jnp.where(MASK, _padded(logp - OLD), jnp.nan),
    move,
    iteration,
    MASK,
    SEQ,
    GROUP,
    **more,
  )[0, 0]


@functools.cache
def _slope(pair):
  """(objective, gradient in logp), compiled once."""
  return jax.jit(jax.value_and_grad(pair))


def test_mass_moves_from_worst_to_best():
  cases = (
    ([1.0, 0.0, 0.5], [1, -1, 0]),
    ([1.0, 0.0, 1.0], [0.5, -1, 0.5]),
    ([0.0, 0.0, 0.3], [-0.5, -0.5, 1]),
    ([0.1, 0.1, 0.1], [0, 0, 0]),
  )
  for rewards, want in cases:
    got = _move(rewards)
    np.testing.assert_array_equal(got[:, 0], want)
    assert not np.any(got[:, 1])


def test_worked_pair():
  value, gradient = _slope(_pair)(OLD, _move([1.0, 0.0, 0.5]))
  np.testing.assert_allclose(value, -0.001049, atol=1e-6)
  np.testing.assert_allclose(
    -gradient[:, 0], [-0.019676, 0.019886, -0.000210], atol=1e-6
  )


def _kl(p, q):
  return np.sum(p * np.log(p / q))


def test_away_from_the_old_policy_a_penalty_joins():
  pi, old = np.asarray([0.5, 0.2, 0.3]), np.asarray([0.3, 0.5, 0.2])
  delta = 0.02 * 0.98**3
  q = old + delta * np.asarray([1, -1, 0])
  want = _kl(pi, q) + 0.5 * (_kl(pi, old) - 0.01)
  got = _pair(
    jnp.log(jnp.asarray(pi, jnp.float32))[:, None], _move([1, 0, 0.5]), 3
  )
  np.testing.assert_allclose(got, -want, rtol=1e-5)


def test_no_more_moves_than_half_of_what_is_there():
  q = np.asarray([0.55, 0.25, 0.2])
  got = _pair(OLD, _move([1.0, 0.0, 0.5]), delta=0.4)
  np.testing.assert_allclose(got, -_kl(np.exp(OLD[:, 0]), q), rtol=1e-5)


def test_relative_candidates_are_alike_at_the_start():
  value, gradient = _slope(_relative)(OLD, _move([1.0, 0.0, 0.5]))
  even = np.full(3, 1 / 3)
  q = even + 0.02 * np.asarray([1, -1, 0])
  np.testing.assert_allclose(value, -_kl(even, q), atol=1e-7)
  slope = -np.log(q) - np.mean(-np.log(q))
  np.testing.assert_allclose(-gradient[:, 0], slope / 3, atol=1e-6)


@pytest.mark.parametrize('pair', [_pair, _relative])
def test_a_tie_moves_nothing(pair):
  value, gradient = _slope(pair)(OLD - 1.0, _move([0.3, 0.3, 0.3]))
  assert value == 0 and not np.any(gradient)


@pytest.mark.parametrize('pair', [_pair, _relative])
def test_the_optimum_is_where_the_mass_has_moved(pair):
  move = _move([1.0, 0.0, 0.5])
  start = OLD[:, 0] if pair is _pair else jnp.zeros(3)
  q = jax.nn.softmax(start) + 0.02 * move[:, 0]
  at = jnp.log(q)[:, None] + (0 if pair is _pair else OLD)
  value, gradient = _slope(pair)(at, move)
  np.testing.assert_allclose(value, 0, atol=1e-6)
  np.testing.assert_allclose(gradient, np.zeros((3, 1)), atol=1e-6)


@pytest.mark.parametrize('pair', [_pair, _relative])
@pytest.mark.parametrize('rewards', [[1.0, 0.0, 0.5], [0.0, 1.0, 0.5]])
def test_far_candidates_are_finite(pair, rewards):
  for far in (OLD.at[0].add(-1e6), OLD.at[1].add(-500), OLD - 1e6):
    value, gradient = _slope(pair)(far, _move(rewards))
    assert np.isfinite(value) and np.all(np.isfinite(gradient))


def test_old_candidates_without_mass_are_finite():
  move = _move([1.0, 0.0, 0.5])
  for scores in ([0.0, -1e4, -2.0], [-1e4, 0.0, -2.0], [-200.0, -200.0, 0.0]):
    old = jnp.asarray(scores)[:, None]
    value, gradient = _slope(_pair)(old - 0.1, move, 0, old)
    assert np.isfinite(value) and np.all(np.isfinite(gradient))


def test_longer_candidates_and_packing():
  logp = jnp.asarray([[-1.0, -2.0, -0.5, jnp.nan], [-1.5, -0.7, -0.2, -0.1]])
  old = logp + jnp.asarray([[0.1, -0.2, 0.3, 0.0], [0.2, 0.1, -0.1, 0.4]])
  mask = ~jnp.isnan(logp)
  seq = levels.Level(jnp.asarray([[0, 0, 1, 1], [2, 2, 2, 3]]), 4)
  group = levels.Level(jnp.asarray([[0, 0, 0, 0], [1, 1, 1, 0]]), 2)
  rewards = jnp.asarray([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.5]])
  move = regressions.moved_mass(rewards, mask, seq, group)
  np.testing.assert_array_equal(move, [[1, 1, -1, 0], [0, 0, 0, 0]])
  got = regressions.pair_hard(logp, old, move, 0, mask, seq, group)
  log_pi = jax.nn.log_softmax(jnp.asarray([-3.0, -0.5, -0.1]))
  log_old = jax.nn.log_softmax(jnp.asarray([-3.1, -0.2, 0.3]))
  q = np.exp(log_old) + np.asarray([0.02, -0.02, 0])
  pi = np.exp(log_pi)
  want = _kl(pi, q) + 0.5 * max(_kl(pi, np.exp(log_old)) - 0.01, 0)
  same = [got[0, 0], got[0, 1], got[0, 2], got[1, 3]]
  np.testing.assert_allclose(same, np.full(4, -want), rtol=1e-4)
  np.testing.assert_array_equal(got[1, :3], np.zeros(3))
  by_ratio = regressions.pair_hard_relative(
    ratios.trajectory(logp, old, mask, seq), move, 0, mask, seq, group
  )
  assert np.all(np.isfinite(by_ratio[mask]))
