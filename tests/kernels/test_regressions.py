"""Regressions: worked losses, gradients a sequence, groups without any."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worked

from arl import levels
from arl.kernels import advantages, aggregations, ratios, regressions

LOGP = worked.column(worked.LOGP)
OLD = worked.column(worked.OLD_LOGP)
MASK, SEQ, GROUP = worked.mask(), worked.sequences(), worked.one_group()
REWARDS = worked.at_end(worked.REWARDS)
CENTERED = advantages.group_center(REWARDS, MASK, SEQ, GROUP)
DEVIATION = advantages.group_normalize(
  REWARDS, MASK, SEQ, GROUP, ddof=0, eps=0.0
)
CORRECT = worked.per_sequence([1.0, 0.0, 0.0, 1.0])
LENGTHS = np.asarray(worked.LENGTHS)
MEAN = aggregations.group_mean(MASK, SEQ, GROUP)
# All tokens of a group carry its value: any one weight a group will do.
IN_GROUPS = aggregations.token_mean(MASK)


def _trajectory(kernel, logp, target, *, bad=0.0, **more):
  """A kernel of log-ratios, `bad` in what it reads off the mask."""
  log_ratio = ratios.trajectory(logp, OLD, MASK, SEQ)
  log_ratio, target = (jnp.where(MASK, x, bad) for x in (log_ratio, target))
  objective = kernel(log_ratio, target, mask=MASK, seq=SEQ, group=GROUP, **more)
  return jnp.where(MASK, objective, 0)


def _contrast(kernel, logp, progress, correct=CORRECT, bad=0.0, group=GROUP):
  logp, correct = (jnp.where(MASK, x, bad) for x in (logp, correct))
  objective = kernel(logp, correct, progress, MASK, SEQ, group)
  return jnp.where(MASK, objective, 0)


def _loss(objective):
  """(loss, gradient in logp): the mean over groups."""
  return jax.value_and_grad(lambda logp: -jnp.sum(MEAN * objective(logp)))


def _rows(per_sequence):
  """Of a number a sequence, each token's part in the gradient of a sum."""
  return worked.per_sequence(per_sequence)


# Mirror descent.


def test_mirror_descent():
  weights = aggregations.sequence_mean(MASK, SEQ)

  @jax.jit
  @jax.value_and_grad
  def loss(logp):
    log_ratio = ratios.trajectory(logp, OLD, MASK, SEQ)
    objective = regressions.mirror_descent(log_ratio, CENTERED, tau=0.5)
    return -jnp.sum(weights * objective)

  value, gradient = loss(LOGP)
  np.testing.assert_allclose(value, 0.152188, atol=1e-6)
  want = np.asarray([-0.131250, 0.100000, 0.087500, -0.056250])
  np.testing.assert_allclose(gradient, _rows(want), atol=1e-6)
  coefficients = gradient[:, 0] / -(2 * 0.5) * 4  # of the ascent
  np.testing.assert_allclose(
    coefficients, [0.525, -0.4, -0.35, 0.225], atol=2e-6
  )


def test_mirror_descent_without_an_advantage_pulls_back():
  slope = jax.grad(regressions.mirror_descent)(0.3, 0.0, tau=0.5)
  np.testing.assert_allclose(slope, -0.15, rtol=1e-6)


# Lists.


@functools.partial(jax.jit, static_argnames=('kernel', 'bad'))
def _listwise(kernel, logp, target, bad=0.0):
  return _loss(lambda x: _trajectory(kernel, x, target, bad=bad))(logp)


def _target(advantage, **more):
  return regressions.listwise_target(advantage, MASK, SEQ, GROUP, **more)


def test_target_by_deviation():
  want = _rows([0.644551, 0.080281, 0.047693, 0.227476])
  for target in (_target(DEVIATION), _target(CENTERED, tau=0.384057)):
    got = jnp.exp(target)
    np.testing.assert_allclose(got[MASK], want[MASK], atol=1e-6)
    assert not np.any(target[~MASK])


def test_target_by_mean():
  got = regressions.listwise_target_by_mean(REWARDS, MASK, SEQ, GROUP)
  want = jax.nn.log_softmax(jnp.asarray(worked.REWARDS) / 0.45)
  np.testing.assert_allclose(got[MASK], _rows(want)[MASK], rtol=1e-5)
  none = regressions.listwise_target_by_mean(-REWARDS, MASK, SEQ, GROUP)
  np.testing.assert_allclose(jnp.exp(none[MASK]), 0.25, rtol=1e-6)


LISTS = {
  'forward': (
    regressions.listwise_forward,
    0.426057,
    [-0.386922, 0.250521, 0.152949, -0.016547],
  ),
  'reverse': (
    regressions.listwise_reverse,
    0.504497,
    [-0.366227, 0.301523, 0.187047, -0.122343],
  ),
}


@pytest.mark.parametrize('name', LISTS)
@pytest.mark.parametrize('bad', [0.0, np.nan, 1e9])
def test_listwise(name, bad):
  kernel, value, coefficients = LISTS[name]
  loss, gradient = _listwise(kernel, LOGP, _target(DEVIATION), bad)
  np.testing.assert_allclose(loss, value, atol=1e-6)
  np.testing.assert_allclose(gradient, _rows(coefficients), atol=1e-6)


def test_listwise_forward_on_policy_is_the_share_less_the_target():
  _, gradient = _listwise(regressions.listwise_forward, OLD, _target(CENTERED))
  want = 0.25 - jax.nn.softmax(jnp.asarray(worked.REWARDS))
  np.testing.assert_allclose(gradient, _rows(want), atol=1e-6)


def test_listwise_is_to_first_order_a_group_baseline():
  tau = 1000.0
  for kernel in (regressions.listwise_forward, regressions.listwise_reverse):
    _, gradient = _listwise(kernel, OLD, _target(CENTERED, tau=tau))
    np.testing.assert_allclose(
      gradient * tau * 4, jnp.where(MASK, -CENTERED, 0), atol=2e-3
    )


@pytest.mark.parametrize('kernel', [each for each, *_ in LISTS.values()])
def test_a_list_without_a_comparison_holds_nothing(kernel):
  even = _target(jnp.zeros((4, 3)))
  value, gradient = _listwise(kernel, LOGP, even)
  assert value == 0 and not np.any(gradient)
  alone = levels.Level(SEQ.ids[:, :1], 4)
  target = regressions.listwise_target(CENTERED, MASK, SEQ, alone)
  got = kernel(
    ratios.trajectory(LOGP, OLD, MASK, SEQ), target, MASK, SEQ, alone
  )
  np.testing.assert_array_equal(got[MASK], np.zeros(9))


@pytest.mark.parametrize('kernel', [each for each, *_ in LISTS.values()])
def test_lists_far_from_their_target_are_finite(kernel):
  far = _target(CENTERED, tau=1e-6)
  for logp in (OLD, OLD - 1e6, OLD.at[1].add(1e6)):
    value, gradient = _listwise(kernel, logp, far)
    assert np.isfinite(value) and np.all(np.isfinite(gradient))


# Contrasts.


@functools.partial(jax.jit, static_argnames=('kernel', 'bad'))
def _contrastive(kernel, logp, progress, correct=CORRECT, bad=0.0):
  return _loss(lambda x: _contrast(kernel, x, progress, correct, bad))(logp)


@pytest.mark.parametrize('bad', [0.0, np.nan, -1e9])
def test_contrastive(bad):
  kernel = regressions.contrastive
  value, gradient = _contrastive(kernel, LOGP, 1.0, bad=bad)
  np.testing.assert_allclose(value, 1.430462, atol=1e-6)
  want = np.asarray([-0.789251, 1.217525, 0.300238, -0.728512]) / LENGTHS
  np.testing.assert_allclose(gradient, _rows(want), atol=1e-6)
  value, _ = _contrastive(kernel, LOGP, 0.0)
  np.testing.assert_allclose(value, 1.142440, atol=1e-6)


def test_contrastive_all_by_hand():
  scores = np.asarray([-1.15, -0.8, -1.5, -0.983333]) / 0.5
  scores[[0, 3]] -= 0.1 / 0.5
  total = np.log(np.sum(np.exp(scores)))
  value, gradient = _contrastive(regressions.contrastive_all, LOGP, 0.5)
  np.testing.assert_allclose(value, total - scores[[0, 3]].mean(), rtol=1e-5)
  slope = (np.exp(scores - total) - [0.5, 0, 0, 0.5]) / 0.5
  np.testing.assert_allclose(gradient, _rows(slope / LENGTHS), atol=1e-5)


CONTRASTS = (regressions.contrastive, regressions.contrastive_all)


@pytest.mark.parametrize('kernel', CONTRASTS)
def test_a_contrast_needs_both_sides(kernel):
  for correct in (jnp.zeros((4, 3)), jnp.ones((4, 3))):
    value, gradient = _contrastive(kernel, LOGP, 1.0, correct)
    assert value == 0 and not np.any(gradient)


@pytest.mark.parametrize('kernel', CONTRASTS)
def test_far_contrasts_are_finite(kernel):
  for logp in (LOGP.at[1].add(-1e6), LOGP.at[0].add(-1e6), LOGP - 1e6):
    value, gradient = _contrastive(kernel, logp, 1.0)
    assert np.isfinite(value) and np.all(np.isfinite(gradient))


def test_correct():
  rewards = worked.at_end([0.5, -1.0, 0.0, 1.0], jnp.nan)
  got = regressions.correct(rewards, MASK, SEQ)
  want = _rows([1.0, 0.0, 0.0, 1.0])
  np.testing.assert_array_equal(got[MASK], want[MASK])


# Any of them.


def _of_group(name, logp, old, target, mask, seq, group):
  kernel = getattr(regressions, name)
  if name.startswith('listwise'):
    log_ratio = ratios.trajectory(logp, old, mask, seq)
    return kernel(log_ratio, target, mask, seq, group)
  return kernel(logp, target, 1.0, mask, seq, group)


OF_GROUPS = (
  'listwise_forward',
  'listwise_reverse',
  'contrastive',
  'contrastive_all',
)


@pytest.mark.parametrize('name', OF_GROUPS)
def test_packed_as_padded(name):
  target = _target(DEVIATION) if name.startswith('l') else CORRECT
  want = _of_group(name, LOGP, OLD, target, MASK, SEQ, GROUP)
  order = np.asarray([3, 0, 2, 1])

  def pack(x):
    return jnp.concatenate([x[row] for row in order])[None]

  columns = [pack(x) for x in (LOGP, OLD, target, MASK)]
  seq, group = (levels.Level(pack(x.ids), x.num) for x in (SEQ, GROUP))
  got = _of_group(name, *columns, seq, group)
  np.testing.assert_allclose(
    got[pack(MASK)], want[order][MASK[order]], rtol=1e-5
  )


@pytest.mark.parametrize('name', OF_GROUPS)
def test_nothing_on_the_mask(name):
  empty, nan = jnp.zeros_like(MASK), jnp.full((4, 3), jnp.nan)

  def total(logp):
    objective = _of_group(name, logp, nan, nan, empty, SEQ, GROUP)
    return jnp.sum(jnp.where(empty, objective, 0))

  value, gradient = jax.value_and_grad(total)(nan)
  assert value == 0 and not np.any(gradient)
