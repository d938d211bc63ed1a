"""Surrogates: literal numbers, gradients, ties and limits."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import worked
from absl.testing import parameterized

from arl import levels
from arl.kernels import aggregations, surrogates

OLD = worked.column(worked.OLD_LOGP)
LOGP = worked.column(worked.LOGP)
ADVANTAGE = worked.per_sequence(worked.ADVANTAGE)
CLIP = functools.partial(surrogates.clip, low=0.2, high=0.2)
DUAL = functools.partial(surrogates.dual_clip, low=0.2, high=0.2)
TWO_SIDED = functools.partial(surrogates.two_sided, low=0.2, high=0.2)
RESCUE = functools.partial(surrogates.rescue, low=0.2, high=0.2)
COIN = functools.partial(surrogates.rescue_bernoulli, low=0.2, high=0.2)
MASK, SEQ = worked.mask(), worked.sequences()


def _read(kernel, logp, advantage):
  """A surrogate of any signature, of tokens whose anchor is OLD."""
  if kernel is surrogates.reinforce:
    return kernel(logp, advantage)
  return kernel(logp - OLD, advantage)


class WorkedTest(chex.TestCase):
  """The loss of the nine worked tokens, a token mean."""

  @chex.variants(with_jit=True, without_jit=True)
  @parameterized.named_parameters(
    ('reinforce', surrogates.reinforce, 0.316943),
    ('clip', CLIP, -0.284715),
    (
      'clip_higher',
      functools.partial(surrogates.clip, low=0.2, high=0.28),
      -0.298746,
    ),
    ('dual_clip', functools.partial(DUAL, cap=1.3), -0.296731),
  )
  def test_loss(self, kernel, want):
    objective = self.variant(functools.partial(_read, kernel))(LOGP, ADVANTAGE)
    np.testing.assert_allclose(-jnp.sum(objective) / 9, want, atol=1e-6)


CLIPPED = [
  [-0.152294, -0.102086, 0.0],
  [0.093443, 0.056676],
  [0.092309],
  [-0.039509, 0.0, -0.022795],
]
DUAL_CLIPPED = [CLIPPED[0], [0.0, 0.056676], *CLIPPED[2:]]


class GradientTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ('clip', CLIP, CLIPPED),
    ('dual_clip', functools.partial(DUAL, cap=1.3), DUAL_CLIPPED),
  )
  def test_worked(self, kernel, want):
    def loss(logp):
      return -jnp.sum(_read(kernel, logp, ADVANTAGE)) / 9

    got = jax.jit(jax.grad(loss))(LOGP)
    np.testing.assert_allclose(got, worked.column(want), atol=1e-6)


def _slope(kernel, log_ratio, advantage):
  """Value and derivative in the log-ratio, of one token."""
  return jax.value_and_grad(lambda x: kernel(x, jnp.float32(advantage)))(
    jnp.float32(log_ratio)
  )


def test_a_tie_takes_the_unclipped_branch_with_its_whole_gradient():
  for advantage in (1.0, -1.0, 0.5):
    for kernel in (CLIP, DUAL):
      value, slope = _slope(kernel, 0.0, advantage)
      assert (float(value), float(slope)) == (advantage, advantage)


def test_a_tie_at_a_bound_keeps_the_gradient():
  at_bound = functools.partial(surrogates.clip, low=0.5, high=1.0)
  for advantage, log_ratio in ((1.0, np.log(2.0)), (-1.0, np.log(0.5))):
    ratio = np.exp(np.float32(log_ratio))
    exact = functools.partial(at_bound, low=1 - ratio, high=ratio - 1)
    value, slope = _slope(exact, log_ratio, advantage)
    np.testing.assert_allclose([value, slope], [ratio * advantage] * 2)


def test_each_bound_binds_for_one_sign():
  asymmetric = functools.partial(surrogates.clip, low=0.2, high=0.28)
  up, down = np.log(1.25), np.log(0.7)
  cases = (
    (CLIP, up, 1, 1.2, 0.0),
    (asymmetric, up, 1, 1.25, 1.25),
    (CLIP, up, -1, -1.25, -1.25),
    (CLIP, down, -1, -0.8, 0.0),
    (CLIP, down, 1, 0.7, 0.7),
  )
  for kernel, log_ratio, advantage, value, slope in cases:
    got = _slope(kernel, log_ratio, advantage)
    np.testing.assert_allclose(got, [value, slope], rtol=1e-5)


def test_dual_clip_bounds_what_a_bad_action_may_cost():
  cases = ((5.0, -1, -3.0, 0.0), (2.0, -1, -2.0, -2.0), (5.0, 1, 1.2, 0.0))
  for ratio, advantage, value, slope in cases:
    got = _slope(DUAL, np.log(ratio), advantage)
    np.testing.assert_allclose(got, [value, slope], rtol=1e-5)


def test_importance_has_no_limit_but_finiteness():
  value, slope = _slope(surrogates.importance, np.log(7.0), 2.0)
  np.testing.assert_allclose([value, slope], [14.0, 14.0], rtol=1e-6)
  value, slope = _slope(surrogates.importance, 1e6, 2.0)
  np.testing.assert_allclose(value, 2 * np.exp(20.0), rtol=1e-6)
  assert float(slope) == 0


def test_the_ratio_is_finite_everywhere():
  x = jnp.asarray([-1e30, -20.0, 0.0, 20.0, 1e30], jnp.float32)
  e = np.exp(20.0)
  np.testing.assert_allclose(
    jax.jit(surrogates.ratio)(x), [1 / e, 1 / e, 1, e, e], rtol=1e-6
  )


def test_two_sided_bounds_the_free_branch():
  cases = ((6.0, -1, -4.0, 0.0), (2.0, -1, -2.0, -2.0), (6.0, 1, 1.2, 0.0))
  for ratio, advantage, value, slope in cases:
    got = _slope(TWO_SIDED, np.log(ratio), advantage)
    np.testing.assert_allclose(got, [value, slope], rtol=1e-5)


def test_two_sided_is_a_dual_clip_at_delta():
  x = jnp.linspace(-3.0, 3.0, 61)
  for advantage in (jnp.full(61, 1.5), jnp.full(61, -1.5), jnp.zeros(61)):
    got = TWO_SIDED(x, advantage, delta=2.0)
    want = DUAL(x, advantage, cap=2.0)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def _geometric(logp, bound, advantage=ADVANTAGE):
  weights = aggregations.sequence_mean(MASK, SEQ)
  objective = surrogates.geometric(
    logp - OLD, advantage, MASK, SEQ, low=bound, high=bound
  )
  return -jnp.sum(jnp.where(MASK, weights * objective, 0))


def test_geometric():
  loss = jax.jit(jax.value_and_grad(_geometric))
  np.testing.assert_allclose(loss(LOGP, 0.4)[0], -0.024263, atol=1e-6)
  value, gradient = loss(LOGP, 0.22)
  want = worked.column(
    [
      [-0.104042, -0.104042, 0.0],
      [0.081871, 0.081871],
      [0.207696],
      [-0.026106, 0.0, -0.026106],
    ]
  )
  np.testing.assert_allclose(value, -0.019010, atol=1e-6)
  np.testing.assert_allclose(gradient, want, atol=1e-6)


def test_geometric_with_garbage_off_the_mask():
  want = jax.value_and_grad(_geometric)(LOGP, 0.22)
  for bad in (jnp.nan, 1e9, -jnp.inf):
    logp, advantage = (jnp.where(MASK, x, bad) for x in (LOGP, ADVANTAGE))
    got = jax.value_and_grad(_geometric)(logp, 0.22, advantage)
    np.testing.assert_array_equal(got[0], want[0])
    np.testing.assert_array_equal(got[1], want[1])


def test_geometric_without_an_advantage_or_a_change():
  loss = jax.value_and_grad(_geometric)
  value, gradient = loss(LOGP, 0.4, jnp.zeros((4, 3)))
  assert value == 0 and not np.any(gradient)
  _, gradient = loss(OLD, 0.4)
  want = -aggregations.sequence_mean(MASK, SEQ) * ADVANTAGE
  np.testing.assert_allclose(gradient, want, rtol=1e-6)


NOISE = (jnp.arange(10000.0) + 0.5) / 10000


def test_rescue_of_a_ratio_near_its_bound():
  def weight(x):
    return RESCUE(jnp.full(NOISE.shape, x), jnp.ones(NOISE.shape), NOISE)

  value, slope = jax.jvp(weight, (jnp.log(1.4),), (jnp.ones(()),))
  rescued = slope != 0
  np.testing.assert_allclose(jnp.mean(rescued), 0.214286, atol=1e-3)
  np.testing.assert_allclose(jnp.mean(slope) / 1.4, 0.172194, atol=1e-3)
  np.testing.assert_allclose(value[~rescued], 1.2, rtol=1e-6)
  assert np.all(np.asarray(value[rescued]) <= 1.2)


def test_rescue_reaches_no_further_than_its_width():
  bounds = np.asarray([1.2 / 0.75, 0.8 / 1.25])
  for ratio, advantage in zip(bounds, (1.0, -1.0)):
    outward = 1.001 if advantage > 0 else 0.999
    for factor, some in ((1 / outward, True), (outward, False)):
      x = jnp.full(NOISE.shape, np.log(ratio * factor))
      got = RESCUE(x, jnp.full(NOISE.shape, advantage), NOISE)
      clipped = CLIP(x, jnp.full(NOISE.shape, advantage))
      assert bool(jnp.any(got != clipped)) == some


def test_rescue_without_width_is_a_clip_bit_for_bit():
  x = jnp.linspace(-2.0, 2.0, NOISE.size)
  for advantage in (jnp.ones(x.shape), -jnp.ones(x.shape)):
    for got in (
      RESCUE(x, advantage, NOISE, width=0.0),
      COIN(x, advantage, NOISE, probability=0.0),
    ):
      np.testing.assert_array_equal(got, CLIP(x, advantage))


def test_rescue_leaves_alone_what_is_not_clipped():
  x = jnp.log(jnp.linspace(0.81, 1.19, NOISE.size))
  for kernel in (RESCUE, COIN):
    got = kernel(x, jnp.ones(x.shape), NOISE)
    np.testing.assert_array_equal(got, CLIP(x, jnp.ones(x.shape)))
  back = kernel(jnp.full(NOISE.shape, jnp.log(0.5)), jnp.ones(x.shape), NOISE)
  np.testing.assert_allclose(back, 0.5, rtol=1e-6)


def test_a_coin_keeps_a_share_within_the_margin():
  for ratio, advantage, want in (
    (1.49, 1.0, 1.49),
    (1.51, 1.0, 1.2),
    (0.61, -1.0, -0.61),
    (0.59, -1.0, -0.8),
  ):
    x = jnp.full(NOISE.shape, jnp.log(ratio))
    got = COIN(x, jnp.full(NOISE.shape, advantage), NOISE, probability=0.3)
    kept = NOISE < 0.3
    bounded = 1.2 if advantage > 0 else -0.8
    np.testing.assert_allclose(got[kept], want, rtol=1e-6)
    np.testing.assert_allclose(got[~kept], bounded, rtol=1e-6)


def test_bounds_widen_from_turn_to_turn():
  turn = levels.Level(jnp.asarray([[4, 4, 9, 2, 2, 1, 1, 9, 7, 7]]), 8)
  seq = levels.Level(jnp.asarray([[1, 1, 1, 1, 1, 1, 1, 9, 0, 0]]), 2)
  mask = jnp.asarray([[True] * 2 + [False] + [True] * 4 + [False, True, True]])
  x = jnp.where(mask, jnp.log(2.0), jnp.nan)
  got = surrogates.clip_by_turn(
    x, jnp.ones((1, 10)), mask, seq, turn, low=0.1, high=0.2, kappa=1.0
  )
  want = [[1.2, 1.2, 1.3, 1.3, 1.4, 1.4, 1.2, 1.2]]
  np.testing.assert_allclose(got[mask], want[0], rtol=1e-6)
  down = surrogates.clip_by_turn(
    -x, -jnp.ones((1, 10)), mask, seq, turn, low=0.1, high=0.2, kappa=1.0
  )
  want = [-0.9, -0.9, -0.85, -0.85, -0.8, -0.8, -0.9, -0.9]
  np.testing.assert_allclose(down[mask], want, rtol=1e-6)


def test_bounds_by_turn_without_growth_or_of_one_turn_are_the_same():
  x, rows = LOGP - OLD, levels.Level(SEQ.ids[:, :1], SEQ.num)
  want = CLIP(x, ADVANTAGE)
  by_turn = functools.partial(surrogates.clip_by_turn, low=0.2, high=0.2)
  for turn in (SEQ, rows):
    for kappa in (0.0, 3.0):
      got = by_turn(x, ADVANTAGE, MASK, rows, turn, kappa=kappa)
      np.testing.assert_allclose(got[MASK], want[MASK], rtol=1e-6)


def test_on_policy_every_surrogate_is_the_policy_gradient():
  noise = jnp.linspace(0.0, 0.99, 12).reshape(4, 3)
  turn = functools.partial(surrogates.clip_by_turn, low=0.2, high=0.2)
  for kernel in (
    CLIP,
    DUAL,
    TWO_SIDED,
    lambda x, a: RESCUE(x, a, noise),
    lambda x, a: COIN(x, a, noise),
    lambda x, a: turn(x, a, MASK, SEQ, SEQ, kappa=1.0),
  ):
    got = jax.grad(lambda x, k=kernel: jnp.sum(k(x, ADVANTAGE)))(OLD - OLD)
    np.testing.assert_allclose(got, ADVANTAGE, rtol=1e-6)
