"""Weighted likelihoods: literal numbers, gradients, what is dropped."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worked

from arl.kernels import aggregations, ratios, weights

LOGP = worked.column(worked.LOGP)
OLD = worked.column(worked.OLD_LOGP)
ROLLOUT = worked.column(worked.ROLLOUT_LOGP)
MASK, SEQ = worked.mask(), worked.sequences()
ADVANTAGE = worked.per_sequence(worked.ADVANTAGE)
SIGNS = worked.per_sequence([1.0, -1.0, -1.0, 1.0])

_partial = functools.partial
CLIPPED = _partial(weights.clipped_weight, low=1.0, high=0.28)
DOUBLE = _partial(weights.double_sided, low=0.2, high=0.28)
BELLMAN = _partial(weights.bellman, cap=2.0)
VARIATION = _partial(weights.total_variation_masked, low=0.15, high=0.15)
BINARY_KL = _partial(weights.binary_kl_masked, low=0.2, high=0.2)


def _clipped(logp, anchor, advantage):
  return CLIPPED(logp - anchor, logp, advantage)


def _double(logp, anchor, advantage):
  return DOUBLE(logp - anchor, logp, advantage)


def _gate(logp, anchor, advantage):
  return weights.soft_gate(logp - anchor, advantage)


def _tapered(logp, anchor, advantage):
  log_ratio = ratios.trajectory(logp, anchor, MASK, SEQ)
  return weights.tapered(log_ratio, logp, advantage)


TOKENS = aggregations.token_mean(MASK)
SEQUENCES = aggregations.sequence_mean(MASK, SEQ)
SUMS = aggregations.sequence_sum(MASK, SEQ)
WORKED = {
  'clipped_weight': (_clipped, OLD, ADVANTAGE, TOKENS, 0.397880),
  'double_sided': (_double, ROLLOUT, ADVANTAGE, TOKENS, 0.119539),
  'soft_gate': (_gate, OLD, ADVANTAGE, SEQUENCES, -0.069859),
  'tapered': (_tapered, ROLLOUT, SIGNS, SUMS, 1.087052),
  'total_variation': (VARIATION, ROLLOUT, ADVANTAGE, TOKENS, -0.235792),
  'bellman': (BELLMAN, OLD, ADVANTAGE, TOKENS, 0.293923),
}
GRADIENTS = {
  'clipped_weight': [
    [-0.152294, -0.102086, -0.176386],
    [0.080175, 0.056676],
    [0.092309],
    [-0.039509, -0.048105, -0.022795],
  ],
  'double_sided': [
    [-0.152294, 0.0, 0.0],
    [0.0, 0.056676],
    [0.0],
    [-0.038727, 0.0, 0.0],
  ],
  'soft_gate': [
    [-0.113905, -0.075293, -0.130065],
    [0.098415, 0.063602],
    [0.205826],
    [-0.029612, -0.036907, -0.016451],
  ],
  'tapered': [[-0.25] * 3, [0.25] * 2, [0.075299], [-0.25] * 3],
  'total_variation': [
    [-0.152294, -0.092371, -0.216116],
    [0.229834, 0.056676],
    [0.0],
    [-0.038727, 0.0, -0.022795],
  ],
  'bellman': [
    [-0.146786, -0.098463, -0.144213],
    [0.121661, 0.060169],
    [0.105577],
    [-0.038143, -0.049430, -0.020879],
  ],
}


@functools.cache
def _loss(kernel):
  """(loss, gradient in logp), compiled once a kernel."""

  def loss(logp, anchor, advantage, weigh):
    return -jnp.sum(weigh * kernel(logp, anchor, advantage))

  return jax.jit(jax.value_and_grad(loss))


@pytest.mark.parametrize('name', WORKED)
def test_worked_loss_and_gradient(name):
  kernel, *columns, want = WORKED[name]
  loss, gradient = _loss(kernel)(LOGP, *columns)
  np.testing.assert_allclose(loss, want, atol=1e-6)
  rows = worked.column(GRADIENTS[name])
  np.testing.assert_allclose(gradient[MASK], rows[MASK], atol=1e-6)


ALL = {
  **{name: kernel for name, (kernel, *_) in WORKED.items()},
  'binary_kl': BINARY_KL,
}


@pytest.mark.parametrize('name', ALL)
def test_on_policy_the_gradient_is_that_of_reinforce(name):
  _, gradient = _loss(ALL[name])(LOGP, LOGP, ADVANTAGE, TOKENS)
  want = -TOKENS * ADVANTAGE
  np.testing.assert_allclose(gradient, want, rtol=1e-6)


@pytest.mark.parametrize('gap', [0.0, 5.0, -5.0, 1e9, -1e9, jnp.inf])
@pytest.mark.parametrize('name', ALL)
def test_everything_is_finite(name, gap):
  anchor = jnp.maximum(LOGP - gap, -1e30)
  for advantage in (ADVANTAGE, -ADVANTAGE, jnp.zeros_like(ADVANTAGE)):
    loss, gradient = _loss(ALL[name])(LOGP, anchor, advantage, TOKENS)
    assert np.isfinite(loss) and np.all(np.isfinite(gradient))
  assert not np.any(gradient)


def test_clipped_weight_can_bound_the_lower_side_too():
  two_sided = functools.partial(weights.clipped_weight, low=0.2, high=0.2)
  log_ratio = jnp.log(jnp.asarray([0.5, 1.0, 2.0]))

  def objective(logp):
    return jnp.sum(two_sided(log_ratio, logp, jnp.asarray([1.0, -1.0, 1.0])))

  got = jax.grad(objective)(jnp.asarray([-1.0, -2.0, -3.0]))
  np.testing.assert_allclose(got, [0.8, -1.0, 1.2], rtol=1e-6)


def test_double_sided_weights():
  got = DOUBLE(LOGP - ROLLOUT, jnp.ones((4, 3)), jnp.ones((4, 3)))
  want = worked.column([[1.105171, 0, 0], [0, 0.904837], [0], [1.030455, 0, 0]])
  np.testing.assert_allclose(got[MASK], want[MASK], atol=1e-6)


def test_double_sided_drops_both_sides_for_both_signs():
  for advantage in (1.0, -1.0):
    got = DOUBLE(jnp.log(jnp.asarray([0.79, 0.81, 1.27, 1.29])), 1.0, advantage)
    np.testing.assert_allclose(
      got, np.multiply([0, 0.81, 1.27, 0], advantage), rtol=1e-6
    )


def test_the_gate_at_one():
  slope = jax.value_and_grad(weights.soft_gate)
  good, bad = (slope(jnp.float32(0), jnp.float32(a)) for a in (1, -1))
  np.testing.assert_allclose(good, [2.0, 1.0], rtol=1e-6)
  np.testing.assert_allclose(bad, [-2 / 1.05, -1.0], rtol=1e-6)


def test_tapered_keeps_what_is_good_and_fades_out_what_is_bad():
  log_ratio = jnp.log(jnp.asarray([0.3, 1.0, 3.0]))
  one = jnp.ones(3)
  good, bad = (weights.tapered(log_ratio, one, a * one) for a in (1, -1))
  np.testing.assert_allclose(good, [1, 1, 1], rtol=1e-6)
  np.testing.assert_allclose(bad, [-0.3, -1, -1], rtol=1e-6)
  limits = functools.partial(
    weights.tapered, low_positive=0.5, high_positive=2.0, high_negative=4.0
  )
  good, bad = (limits(log_ratio, one, a * one) for a in (1, -1))
  np.testing.assert_allclose(good, [0.5, 1, 2], rtol=1e-6)
  np.testing.assert_allclose(bad, [-0.3, -1, -3], rtol=1e-6)


def test_bellman_weights():
  free = functools.partial(weights.bellman, cap=10.0)
  got = free(LOGP, OLD, 1 / LOGP)  # times logp it is the weight
  want = worked.column(
    [
      [1.065198, 0.714527, 1.046523],
      [1.942323, 0.960600],
      [0.936409],
      [1.014946, 1.315261, 0.555550],
    ]
  )
  np.testing.assert_allclose(got[MASK], want[MASK], atol=5e-6)
  half, more = jnp.log(jnp.float32(0.5)), jnp.log(jnp.float32(0.6))
  np.testing.assert_allclose(BELLMAN(more, half, 1 / more), 1.25, rtol=1e-5)
  certain = BELLMAN(jnp.float32(-1e-9), half, jnp.float32(-1e9))
  np.testing.assert_allclose(certain, 2.0, rtol=1e-6)


def test_a_step_back_is_never_dropped():
  pi, mu = jnp.log(jnp.asarray([0.9, 0.1])), jnp.log(jnp.asarray([0.1, 0.9]))
  for kernel in (VARIATION, BINARY_KL):
    away = kernel(pi, mu, jnp.asarray([1.0, -1.0]))
    back = kernel(pi, mu, jnp.asarray([-1.0, 1.0]))
    np.testing.assert_array_equal(away, [0, 0])
    np.testing.assert_allclose(back, [-9.0, 1 / 9], rtol=1e-5)


def test_a_rare_token_may_multiply_its_probability():
  pi, mu = jnp.log(jnp.float32(0.05)), jnp.log(jnp.float32(0.005))
  for kernel in (VARIATION, BINARY_KL):
    np.testing.assert_allclose(kernel(pi, mu, 1.0), 10.0, rtol=1e-5)


def test_each_side_has_its_own_bound():
  pi, mu = jnp.log(jnp.asarray([0.8, 0.2])), jnp.log(jnp.asarray([0.5, 0.5]))
  signs = jnp.asarray([1.0, -1.0])
  tight, loose = 0.1, 0.4  # 0.3 of variation, 0.223 nats
  for kernel in (weights.total_variation_masked, weights.binary_kl_masked):
    kept = kernel(pi, mu, signs, low=tight, high=loose) != 0
    np.testing.assert_array_equal(kept, [True, False])
    kept = kernel(pi, mu, signs, low=loose, high=tight) != 0
    np.testing.assert_array_equal(kept, [False, True])


def test_certainty_up_to_rounding_is_kept():
  above = jnp.asarray([1e-6, 0.0, -1e-7], jnp.float32)
  got = BINARY_KL(jnp.full(3, -0.01), above, -jnp.ones(3))
  assert np.all(np.asarray(got) < 0)


def test_a_behavior_that_is_no_probability_is_not_left_further():
  got = BINARY_KL(
    jnp.full(2, -0.01), jnp.full(2, 0.3), jnp.asarray([-1.0, 1.0])
  )
  assert got[0] == 0 and got[1] > 0
