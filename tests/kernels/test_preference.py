"""Preferences: exact slopes, labels, lengths, what is no pair, any padding."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worked

from arl import levels
from arl.kernels import aggregations, preference, regressions
from arl.methods import compose
from arl.methods import preference as recipes

LENGTHS = (3, 2, 1, 3)
TOKENS = np.asarray(LENGTHS, np.float32)[:, None]
MASK, SEQ = worked.mask(LENGTHS), worked.sequences()
PAIRS, ALL = worked.level([0, 0, 1, 1], 3), worked.level([0] * 4, 3)
REWARDS = worked.at_end([1.0, 0.0, 0.0, 1.0])
LOGP, REF = worked.column(worked.LOGP), worked.column(worked.REF_LOGP)
SUMS = np.asarray([sum(row) for row in worked.LOGP])
REF_SUMS = np.asarray([sum(row) for row in worked.REF_LOGP])
# What the preferred answer of each pair is ahead by.
GAP = SUMS - REF_SUMS
H = np.asarray([GAP[0] - GAP[1], GAP[3] - GAP[2]])
BAD = (np.nan, np.inf, -np.inf, 1e9)


def marks(rewards=REWARDS, group=PAIRS):
  return regressions.moved_mass(rewards, MASK, SEQ, group)


def loss(surrogate, logp, ratio=preference.summed, bad=0.0, mark=None):
  """The mean over the pairs, `bad` in what is read off the mask."""
  mark = marks() if mark is None else mark
  logp, ref, mark = (jnp.where(MASK, x, bad) for x in (logp, REF, mark))
  given = {'logp': logp, 'ref_logp': ref, 'mask': MASK, 'seq': SEQ}
  if ratio is preference.likelihood:
    del given['ref_logp']
  log_ratio = jnp.where(MASK, ratio(**given), bad)
  objective = surrogate(log_ratio, mark, MASK, SEQ, PAIRS)
  weights = aggregations.group_mean(MASK, SEQ, PAIRS)
  return -jnp.sum(jnp.where(MASK, weights * objective, 0))


def slope(surrogate, ratio=preference.summed, **more):
  run = functools.partial(loss, surrogate, ratio=ratio, **more)
  return jax.jit(jax.value_and_grad(run))(LOGP)


def of_sequences(first, second):
  """A gradient in h of each pair as that in the log-prob of each token."""
  return worked.per_sequence([first, -first, -second, second])


# Sums: the loss of h and its slope, both in closed form.


def _sigmoid(x):
  return 1 / (1 + np.exp(-x))


def _smoothed(x, eps):
  return (1 - eps) * np.log1p(np.exp(-x)) + eps * np.log1p(np.exp(x))


SUMMED = {
  'sigmoid': (
    functools.partial(preference.sigmoid, beta=0.7),
    lambda h: np.log1p(np.exp(-0.7 * h)),
    lambda h: -0.7 * _sigmoid(-0.7 * h),
  ),
  'smoothed': (
    functools.partial(preference.sigmoid_smoothed, beta=0.7, smoothing=0.2),
    lambda h: _smoothed(0.7 * h, 0.2),
    lambda h: -0.7 * (0.8 * _sigmoid(-0.7 * h) - 0.2 * _sigmoid(0.7 * h)),
  ),
  'robust': (
    functools.partial(preference.sigmoid_robust, beta=0.7, flipped=0.2),
    lambda h: (
      (0.8 * np.log1p(np.exp(-0.7 * h)) - 0.2 * np.log1p(np.exp(0.7 * h))) / 0.6
    ),
    lambda h: -0.7 * (0.8 * _sigmoid(-0.7 * h) + 0.2 * _sigmoid(0.7 * h)) / 0.6,
  ),
  'squared': (
    functools.partial(preference.squared, beta=0.5),
    lambda h: (h - 1) ** 2,
    lambda h: 2 * (h - 1),
  ),
}


@pytest.mark.parametrize('name', SUMMED)
def test_the_loss_and_its_slope_in_closed_form(name):
  surrogate, value, derivative = SUMMED[name]
  got, gradient = slope(surrogate)
  np.testing.assert_allclose(got, np.mean(value(H)), rtol=1e-5)
  want = of_sequences(*(derivative(H) / 2))
  np.testing.assert_allclose(gradient, want, rtol=1e-5, atol=1e-7)


def test_averages_are_over_the_tokens_of_each_answer():
  mean = GAP / np.asarray(LENGTHS)
  h = np.asarray([mean[0] - mean[1], mean[3] - mean[2]])
  surrogate = functools.partial(preference.squared, beta=0.5)
  got, gradient = slope(surrogate, preference.averaged)
  np.testing.assert_allclose(got, np.mean((h - 1) ** 2), rtol=1e-5)
  per_token = of_sequences(*(h - 1)) / TOKENS
  np.testing.assert_allclose(gradient, per_token, rtol=1e-5, atol=1e-7)


def test_a_margin_is_of_mean_log_probs_and_knows_no_reference():
  mean = SUMS / np.asarray(LENGTHS)
  h = np.asarray([mean[0] - mean[1], mean[3] - mean[2]])
  surrogate = functools.partial(preference.sigmoid_margin, beta=2.0, gamma=0.5)
  got, gradient = slope(surrogate, preference.likelihood)
  want = np.mean(np.log1p(np.exp(0.5 - 2 * h)))
  np.testing.assert_allclose(got, want, rtol=1e-5)
  slopes = -2 * _sigmoid(0.5 - 2 * h) / 2
  per_token = of_sequences(*slopes) / TOKENS
  np.testing.assert_allclose(gradient, per_token, rtol=1e-5, atol=1e-7)


def test_odds():
  p = np.exp(SUMS / np.asarray(LENGTHS))
  odds = p / (1 - p)
  h = np.log([odds[0] / odds[1], odds[3] / odds[2]])
  want = -np.log(p[[0, 3]]) + 0.3 * np.log1p(np.exp(-h))
  surrogate = functools.partial(preference.odds_ratio, coef=0.3)
  got, gradient = slope(surrogate, preference.likelihood)
  np.testing.assert_allclose(got, np.mean(want), rtol=1e-5)
  # d log odds / d log p = 1 / (1 - p).
  pull = 0.3 * _sigmoid(-h)
  chosen = -(1 + pull / (1 - p[[0, 3]])) / 2
  other = pull / (1 - p[[1, 2]]) / 2
  each = np.asarray([chosen[0], other[0], other[1], chosen[1]])
  per_token = worked.per_sequence(each / np.asarray(LENGTHS))
  np.testing.assert_allclose(gradient, per_token, rtol=1e-5, atol=1e-7)


def test_odds_of_a_certain_answer_are_finite():
  surrogate = functools.partial(preference.odds_ratio, coef=0.3)
  run = functools.partial(loss, surrogate, ratio=preference.likelihood)
  certain = jnp.where(jnp.arange(4)[:, None] == 0, 0.0, LOGP)
  value, gradient = jax.value_and_grad(run)(certain)
  assert np.isfinite(value) and np.all(np.isfinite(gradient))


# Invariants.


def test_at_the_reference():
  run = lambda kernel, **numbers: loss(
    functools.partial(kernel, **numbers), REF
  )
  for beta in (0.1, 2.0):
    for kernel in (preference.sigmoid, preference.sigmoid_smoothed):
      np.testing.assert_allclose(run(kernel, beta=beta), np.log(2), rtol=1e-6)
    np.testing.assert_allclose(
      run(preference.squared, beta=beta), 1 / (4 * beta**2), rtol=1e-6
    )


def test_the_other_label_turns_h_around():
  turned = loss(preference.sigmoid, LOGP, mark=-marks())
  want = np.mean(np.log1p(np.exp(0.1 * H)))
  np.testing.assert_allclose(turned, want, rtol=1e-5)


def test_robust_is_the_clean_loss_in_expectation_over_the_flips():
  rate = 0.3
  robust = functools.partial(preference.sigmoid_robust, flipped=rate)
  expected = (1 - rate) * loss(robust, LOGP) + rate * loss(
    robust, LOGP, mark=-marks()
  )
  np.testing.assert_allclose(
    expected, loss(preference.sigmoid, LOGP), rtol=1e-5
  )


def test_large_gaps_neither_overflow_nor_vanish_on_the_wrong_side():
  far = jnp.where(marks() > 0, -1e4, 0.0)
  value, gradient = jax.value_and_grad(lambda x: loss(preference.sigmoid, x))(
    far
  )
  assert np.isfinite(value) and value > 10
  np.testing.assert_allclose(gradient[0], -0.05, rtol=1e-5)


KERNELS = {
  'sigmoid': (preference.sigmoid, preference.summed),
  'smoothed': (preference.sigmoid_smoothed, preference.summed),
  'robust': (preference.sigmoid_robust, preference.summed),
  'squared': (preference.squared, preference.summed),
  'averaged': (preference.squared, preference.averaged),
  'margin': (preference.sigmoid_margin, preference.likelihood),
  'odds': (preference.odds_ratio, preference.likelihood),
}


@pytest.mark.parametrize('name', KERNELS)
def test_called_by_hand_anything_may_lie_off_the_mask(name):
  want = slope(*KERNELS[name])
  for bad in BAD:
    got = jax.tree.leaves(slope(*KERNELS[name], bad=bad))
    for a, b in zip(got, want, strict=True):
      np.testing.assert_array_equal(a, b)


def test_a_log_prob_of_minus_infinity_counts_as_a_very_small_one():
  ruled_out = LOGP.at[0, 1].set(-jnp.inf)
  value, gradient = jax.value_and_grad(
    functools.partial(loss, preference.sigmoid)
  )(ruled_out)
  assert np.isfinite(value) and value > 100
  assert np.all(np.isfinite(gradient)) and gradient[0, 1] == 0


# What is a pair.


def _run(part, columns):
  method = compose.method(part)
  credits = method.credit(columns)
  weights = method.weigh(columns, credits)

  def total(logp):
    return method.loss({**columns, 'logp': logp}, credits, weights)

  return jax.jit(jax.value_and_grad(total, has_aux=True))(columns['logp'])


def test_ties_and_single_answers_do_not_count():
  columns = worked.batch()
  columns['group'] = worked.level([0, 0, 1, 1], 3)
  (both, metrics), _ = _run(
    recipes.dpo(), {**columns, 'rewards': worked.at_end([1, 0, 0, 1], jnp.nan)}
  )
  np.testing.assert_allclose(
    both, np.mean(np.log1p(np.exp(-0.1 * H))), rtol=1e-5
  )
  np.testing.assert_allclose(
    metrics['policy/margin'], (5 * H[0] + 4 * H[1]) / 9, rtol=1e-5
  )
  for tie in ([1, 0, 0.5, 0.5], [1, 0, 0, 0]):
    tied = {**columns, 'rewards': worked.at_end(tie, jnp.nan)}
    (one, _), gradient = _run(recipes.dpo(), tied)
    np.testing.assert_allclose(one, np.log1p(np.exp(-0.1 * H[0])), rtol=1e-5)
    assert not np.any(gradient[2:]) and np.all(gradient[0] != 0)
  alone = {**columns, 'group': worked.level([0, 1, 2, 3], 3)}
  (none, _), gradient = _run(recipes.dpo(), alone)
  assert none == 0 and not np.any(gradient)


def test_lengths_of_the_preferred_and_the_other():
  """Of each pair, weighed as the margin is: by the tokens of the pair."""
  columns = worked.batch()
  columns['group'] = worked.level([0, 0, 1, 1], 3)
  columns['rewards'] = worked.at_end([1, 0, 0, 1], jnp.nan)
  (_, metrics), _ = _run(recipes.dpo(), columns)
  for name, (first, second) in (
    ('preferred_tokens', (3, 3)),
    ('other_tokens', (2, 1)),
  ):
    want = (5 * first + 4 * second) / 9
    np.testing.assert_allclose(metrics[f'policy/{name}'], want, rtol=1e-6)
  shared = regressions.moved_mass(worked.at_end([1, 1, 0, 0]), MASK, SEQ, ALL)
  for kernel, mean in (
    (preference.preferred_tokens, 2.5),
    (preference.other_tokens, 2.0),
  ):
    made = kernel(shared, MASK, SEQ, ALL)
    np.testing.assert_allclose(made, np.where(MASK, mean, 0))
    assert not np.any(kernel(jnp.zeros_like(shared), MASK, SEQ, ALL))


def test_an_answer_without_a_token_is_none():
  columns = worked.batch()
  columns['group'] = worked.level([0, 0, 1, 1], 3)
  columns['mask'] = MASK & (jnp.arange(4)[:, None] != 1)
  columns['rewards'] = worked.at_end([1, 0, 0, 1], jnp.nan)
  (one, _), gradient = _run(recipes.dpo(), columns)
  np.testing.assert_allclose(one, np.log1p(np.exp(-0.1 * H[1])), rtol=1e-5)
  assert not np.any(gradient[:2])


def test_of_a_larger_group_the_best_is_compared_with_the_worst():
  columns = worked.batch()
  columns['rewards'] = worked.at_end([0.2, 1.0, 0.0, 0.5], jnp.nan)
  (value, _), gradient = _run(recipes.dpo(), columns)
  h = GAP[1] - GAP[2]
  np.testing.assert_allclose(value, np.log1p(np.exp(-0.1 * h)), rtol=1e-5)
  assert not np.any(gradient[jnp.asarray([0, 3])])


def test_levels_of_one_id_a_row():
  rows = lambda ids, num: levels.level(np.asarray(ids)[:, None], num)
  seq, group = rows([0, 1, 2, 3], 4), rows([0, 0, 1, 1], 3)
  log_ratio = preference.summed(LOGP, REF, MASK, seq)
  mark = regressions.moved_mass(REWARDS, MASK, seq, group)
  got = preference.margin(log_ratio, mark, MASK, seq, group)
  want = worked.per_sequence(np.repeat(H, 2))
  np.testing.assert_allclose(jnp.where(MASK, got, 0), want, rtol=1e-5)
