"""Divergences over candidates; literal numbers are in tests/golden."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl.kernels import candidates

RNG = np.random.default_rng(0)
SCORES = RNG.normal(size=(2, 3, 4, 9)).astype(np.float32)
OWN, TEACHER = np.asarray(jax.nn.log_softmax(SCORES))
DIVERGENCES = {
  'reverse_kl': candidates.reverse_kl,
  'reverse_kl_renormalized': candidates.reverse_kl_renormalized,
  'forward_kl': candidates.forward_kl,
  'forward_kl_renormalized': candidates.forward_kl_renormalized,
  'jsd': candidates.jsd,
}


def _kl(a, b):
  return np.sum(np.exp(a) * (a - b), axis=-1)


@pytest.mark.parametrize('k', [9, 100])
def test_all_tokens_are_exact(k):
  mixed = np.log((np.exp(OWN) + np.exp(TEACHER)) / 2)
  want = {
    'reverse_kl': _kl(OWN, TEACHER),
    'forward_kl': _kl(TEACHER, OWN),
    'jsd': (_kl(OWN, mixed) + _kl(TEACHER, mixed)) / 2,
  }
  for name, kernel in DIVERGENCES.items():
    got = kernel(OWN, TEACHER, k=k)
    whole = want[name.removesuffix('_renormalized')]
    np.testing.assert_allclose(got, whole, atol=2e-6, err_msg=name)


@pytest.mark.parametrize('k', range(1, 9))
def test_a_tail_bounds_the_whole_from_below_and_more_tokens_tell_more(k):
  for name in ('reverse_kl', 'forward_kl', 'jsd'):
    some, more, all_ = (
      DIVERGENCES[name](OWN, TEACHER, k=n) for n in (k, k + 1, 9)
    )
    assert np.all(some >= -1e-6), name
    assert np.all(some <= more + 1e-6) and np.all(more <= all_ + 2e-6), name


@pytest.mark.parametrize('k', [3, 9])
def test_equal_distributions_are_at_rest(k):
  for name, kernel in DIVERGENCES.items():
    value, pull = jax.value_and_grad(
      lambda x, kernel=kernel: jnp.sum(kernel(jax.nn.log_softmax(x), OWN, k=k))
    )(jnp.asarray(OWN))
    np.testing.assert_allclose(value, 0, atol=1e-5, err_msg=name)
    np.testing.assert_allclose(pull, 0, atol=1e-5, err_msg=name)


def test_the_even_mixture_does_not_tell_them_apart():
  np.testing.assert_allclose(
    candidates.jsd(OWN, TEACHER), candidates.jsd(TEACHER, OWN), rtol=1e-4
  )
  assert np.all(candidates.jsd(OWN, TEACHER) < np.log(2))


def test_towards_its_ends_it_vanishes_and_at_them_it_is_a_kl():
  for beta in (1e-4, 1 - 1e-4):
    assert np.all(candidates.jsd(OWN, TEACHER, beta=beta) < 2e-3)
  for beta, end in ((0.0, 'forward_kl'), (1.0, 'reverse_kl')):
    np.testing.assert_array_equal(
      candidates.jsd(OWN, TEACHER, beta=beta, k=5),
      DIVERGENCES[end](OWN, TEACHER, k=5),
    )


def _poor(x):
  """Log-probs of which some are -inf, and zeros as off the mask."""
  return jnp.asarray(np.where(np.arange(9) % 3 == x, -np.inf, OWN)).at[0].set(0)


@pytest.mark.parametrize('k', [4, 9])
def test_what_is_impossible_and_what_is_padding_is_finite(k):
  for name, kernel in DIVERGENCES.items():
    value, pull = jax.value_and_grad(
      lambda x, kernel=kernel: jnp.sum(kernel(x, _poor(1), k=k))
    )(_poor(0))
    assert np.isfinite(value), name
    assert np.all(np.isfinite(pull)), name


def test_on_policy_candidates_have_the_gradient_of_the_divergence():
  logits = jnp.asarray(SCORES[0])

  def actions(logits):
    own = jax.nn.log_softmax(logits)
    return jnp.sum(candidates.rewarded(own, OWN, TEACHER, k=9))

  def whole(logits):
    own = jax.nn.log_softmax(logits)
    return jnp.sum(jnp.exp(own) * (own - TEACHER))

  np.testing.assert_allclose(
    jax.grad(actions)(logits), jax.grad(whole)(logits), atol=1e-5
  )


def test_a_candidate_that_has_moved_too_far_is_clipped():
  moved = jnp.asarray([[[np.log(0.9), np.log(0.1)]]])
  old = jnp.log(jnp.full((1, 1, 2), 0.5))
  theirs = jnp.log(jnp.asarray([[[0.8, 0.2]]]))
  pull = jax.grad(lambda x: jnp.sum(candidates.rewarded(x, old, theirs)))(moved)
  assert not np.any(pull)  # both ratios left the band on their good side
  still = jax.grad(lambda x: jnp.sum(candidates.rewarded(x, old, theirs)))(old)
  np.testing.assert_allclose(
    still, [[[-0.5 * np.log(1.6), -0.5 * np.log(0.4)]]], rtol=1e-5
  )


def test_the_candidates_of_a_partial_sum_pull_as_their_cross_entropy():
  pull = jax.grad(
    lambda x: jnp.sum(candidates.forward_kl_partial(x, TEACHER, k=4))
  )(jnp.asarray(OWN))
  np.testing.assert_allclose(
    pull[..., :4], -np.exp(TEACHER[..., :4]), rtol=1e-5
  )
  assert not np.any(pull[..., 4:])


def test_one_teacher_has_all_the_weight():
  np.testing.assert_array_equal(candidates.debated(jnp.asarray([40.0])), [1])
