"""Reward models: scores, losses by hand, weights of classes, gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import worked

from arl import levels
from arl.kernels import reward_models as models

MASK, SEQ = worked.mask(), worked.sequences()
GROUP = worked.level([0, 0, 1, 1], 3)
AFTER = jnp.where(MASK, jnp.arange(12, dtype=float).reshape(4, 3) - 5, jnp.nan)
LAST = (-3.0, -1.0, 1.0, 6.0)  # of AFTER, of each sequence
TURN = levels.level(
  np.array([[0, 0, 1], [3, 4, 0], [6, 0, 0], [9, 10, 10]], np.int32), 12
)
ENDS = np.array([[0, 1, 1], [1, 1, 0], [1, 0, 0], [1, 0, 1]], bool)


def _shown(column):
  return np.where(MASK, jnp.broadcast_to(column, MASK.shape), 0)


def test_the_score_is_that_after_the_last_token():
  got = models.outcome(AFTER, MASK, SEQ)
  np.testing.assert_array_equal(_shown(got), worked.per_sequence(LAST))
  slope = jax.grad(lambda x: jnp.sum(models.outcome(x, MASK, SEQ)))
  last = levels.last(SEQ, MASK)
  want = np.where(last, jnp.sum(MASK, axis=1, keepdims=True), 0)
  np.testing.assert_array_equal(
    slope(jnp.where(MASK, AFTER, 0)), np.where(want, 3, 0)
  )


def test_how_far_a_pair_is_off_center():
  score = worked.per_sequence(LAST)
  preferred = worked.per_sequence([1.0, -1.0, 0.0, 0.0])
  got = models.off_center(score, preferred, MASK, SEQ, GROUP, coef=0.5)
  np.testing.assert_allclose(_shown(got), worked.per_sequence([8, 8, 0, 0]))
  # Of two that tie the mean counts.
  preferred = worked.per_sequence([0.5, 0.5, 0.0, -1.0])
  one = worked.level([0] * 4, 3)
  got = models.off_center(score, preferred, MASK, SEQ, one, coef=1.0)
  np.testing.assert_allclose(_shown(got), worked.per_sequence([16] * 4))


def test_what_is_right():
  rewards = jnp.where(MASK, worked.at_end([0.1, 0.6, 1.0, -1.0]), jnp.nan)
  got = models.judged(rewards, MASK, SEQ)
  np.testing.assert_array_equal(got, worked.per_sequence([-1, 1, 1, -1]))
  got = models.judged(rewards, MASK, SEQ, above=0.0)
  np.testing.assert_array_equal(got, worked.per_sequence([1, 1, 1, -1]))


def test_the_loss_of_a_label():
  z = jnp.asarray([0.7, -0.7, 0.7, 1e9, -1e9])
  label = jnp.asarray([1.0, 1.0, 0.0, 1.0, 1.0])
  got = models.labelled(z, label)
  want = [np.log1p(np.exp(-0.7)), np.log1p(np.exp(0.7)), 0, 0, 1e9]
  np.testing.assert_allclose(got, want, rtol=1e-6)


def test_the_classes_count_alike():
  preferred = worked.per_sequence([1.0, -1.0, 1.0, 1.0], jnp.nan)
  got = models.balanced(preferred, MASK, SEQ)
  sixth = 1 / 6
  want = worked.at_end([sixth, 0.5, sixth, sixth])
  np.testing.assert_allclose(got, want, rtol=1e-6)
  alone = models.balanced(worked.per_sequence([1.0] * 4), MASK, SEQ)
  np.testing.assert_allclose(alone, worked.at_end([0.25] * 4))
  assert not np.any(models.balanced(jnp.zeros((4, 3)), MASK, SEQ))


def test_steps_end_with_their_last_token():
  np.testing.assert_array_equal(models.step_end(MASK, TURN), ENDS)


def test_cross_entropy_and_its_slope():
  z, y = jnp.asarray([0.4, -1e4, 0.0]), jnp.asarray([0.25, 1.0, 0.5])
  value, slope = jax.vmap(jax.value_and_grad(models.cross_entropy))(z, y)
  p = 1 / (1 + np.exp(-0.4))
  want = -0.25 * np.log(p) - 0.75 * np.log(1 - p), 1e4, np.log(2)
  np.testing.assert_allclose(value, want, rtol=1e-6)
  np.testing.assert_allclose(slope, [p - 0.25, -1, 0], rtol=1e-5, atol=1e-7)
  of_target = jax.grad(models.cross_entropy, argnums=1)(0.4, 0.25)
  assert of_target == 0


def test_the_outcome_is_discounted_by_the_turns_that_are_left():
  rewards = jnp.where(MASK, worked.at_end([1.0, 0.0, 0.5, 1.0]), jnp.nan)
  got = models.discounted_outcome(rewards, MASK, SEQ, TURN, gamma=0.9)
  want = [[0, 0.95, 1], [0.05, 0, 0], [0.5, 0, 0], [0.95, 0, 1]]
  np.testing.assert_allclose(got, want, atol=1e-6)


def test_what_to_watch():
  score = jnp.asarray([0.5, -0.5, 0.5, 0.0])
  label = jnp.asarray([1.0, 1.0, -1.0, 0.0])
  np.testing.assert_array_equal(models.right(score, label), [1, 0, 0, 0])
  p = 1 / (1 + np.exp(-0.5))
  np.testing.assert_allclose(
    models.surplus(score, label), [p - 1, -p, p, 0], rtol=1e-6
  )
  target = jnp.where(ENDS, 0.9, jnp.nan)
  got = models.agreement(AFTER, target, MASK, TURN)
  want = [[0, 0, 0], [0, 0, 0], [1, 0, 0], [1, 1, 1]]
  np.testing.assert_array_equal(_shown(got), want)


def test_endogenous_rewards_telescope():
  rng = np.random.default_rng(0)
  logits = jnp.asarray(rng.normal(size=(5, 7)))
  total = jax.nn.logsumexp(logits, axis=-1)
  chosen = logits[jnp.arange(5), jnp.asarray([0, 6, 2, 2, 1])]
  got = models.endogenous(chosen, total)
  want = jnp.sum(chosen - total) + total[0]
  np.testing.assert_allclose(jnp.sum(got), want, rtol=1e-5)
