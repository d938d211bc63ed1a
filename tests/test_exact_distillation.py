"""Expected gradients of distillation, by enumeration, in float64.

As in test_exact_gradients.py. What a form should be is the gradient of a
divergence of the next token, in the states that the policy visits.
"""

import functools

import jax
import jax.numpy as jnp
import mdp
import numpy as np
import pytest

from arl.kernels import aggregations
from arl.methods import compose, distillation

pytestmark = pytest.mark.usefixtures('x64')

TEACHER, REFERENCE = (
  table - np.log(np.sum(np.exp(table), axis=-1, keepdims=True))
  for table in (mdp.TEACHER, mdp.REFERENCE)
)


def _close(got, want, what=''):
  np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12, err_msg=what)


def _angle(a, b):
  """Cosine between two gradients."""
  return float(jnp.vdot(a, b) / (jnp.linalg.norm(a) * jnp.linalg.norm(b)))


def _reverse(logs):
  return jnp.sum(jnp.exp(logs) * (logs - TEACHER), axis=-1)


def _beyond(logs, scale):
  """KL to the reference less the scaled gain of the teacher over it."""
  gain = scale * (TEACHER - REFERENCE)
  return jnp.sum(jnp.exp(logs) * (logs - REFERENCE - gain), axis=-1)


def _in_states(divergence, weights=(1.0, 1.0)):
  """The gradient of a divergence [4] in the states that POLICY visits.

  Args:
    divergence: of log-probs [4, 3].
    weights: of the first and of the second token.
  """
  first, second = weights
  seen = jnp.where(jnp.arange(4) == 0, first, second) * mdp.visits()
  return mdp.exact_at(
    mdp.POLICY, lambda policy: seen @ divergence(jax.nn.log_softmax(policy))
  )


# Differentiating log-probs of sampled tokens teaches nothing.


def test_the_gradient_of_the_sampled_gap_is_zero_in_expectation():
  gap = compose.Term(
    'gap',
    (('loss', lambda logp, teacher_logp: logp - teacher_logp),),
    aggregations.token_mean,
  )
  _, gradients = mdp.each({'it': gap}, 1)
  assert np.all(np.any(gradients['it']['policy'], axis=(1, 2)))
  np.testing.assert_allclose(mdp.expected_of(gap, 1), 0, atol=1e-15)


def test_the_gradient_of_the_sampled_cross_entropy_is_zero_always():
  crossed = compose.Term(
    'cross', (('loss', lambda teacher_logp: -teacher_logp),),
    aggregations.token_mean,
  )  # fmt: skip
  _, gradients = mdp.each({'it': crossed}, 1)
  assert not np.any(gradients['it']['policy'])


# A sampled token as an action does.


def test_sampled_tokens_have_the_gradient_of_the_reverse_kl():
  parts = {
    'opd': distillation.opd(),
    'glm5_cross_stage': distillation.glm5_cross_stage(),
    'privileged': distillation.privileged(),
    'turnopd': distillation.turnopd(),
    'exopd': distillation.exopd(scale=1.0),
    'routed': distillation.exopd_routed(scale=1.0),
  }
  for name, got in mdp.expected(parts, 1).items():
    _close(got, _in_states(_reverse) / 2, name)


def test_what_follows_makes_it_that_of_sequences():
  whole = functools.partial(mdp.divergence, other=mdp.TEACHER)
  to_go = mdp.expected_of(distillation.opd_to_go(), 1)
  _close(to_go, mdp.exact(whole) / 2)
  _close(
    mdp.expected_of(distillation.opd_to_go(gamma=0.0), 1),
    _in_states(_reverse) / 2,
  )
  assert not np.allclose(to_go, _in_states(_reverse) / 2)


@pytest.mark.parametrize('scale', [0.0, 0.5, 1.25])
def test_what_is_scaled_beyond_the_teacher(scale):
  parts = {
    'one': distillation.exopd(scale=scale),
    'routed': distillation.exopd_routed(scale=scale),
  }
  want = _in_states(functools.partial(_beyond, scale=scale)) / 2
  for name, got in mdp.expected(parts, 1).items():
    _close(got, want, name)


def test_its_optimum_lies_beyond_the_teacher():
  best = jax.nn.log_softmax(1.25 * TEACHER - 0.25 * REFERENCE)
  slope = jax.grad(lambda logits: jnp.sum(_beyond(
    jax.nn.log_softmax(logits), 1.25)))  # fmt: skip
  np.testing.assert_allclose(slope(best), 0, atol=1e-14)


def test_weights_by_position():
  got = mdp.expected_of(distillation.by_position(half=2.0), 1)
  first, second = 1.0, 2**-0.5
  share = first + second + 1e-8
  _close(got, _in_states(_reverse, (first / share, second / share)))


def test_what_reconsiders_is_left_out():
  # In state 2; the mean of a sequence that visits it is over one token.
  got, want = mdp.expected_of(distillation.guarded(), 1), _in_states(_reverse)
  _close(got[[1, 3]], want[[1, 3]] / 2)
  assert not np.any(got[2]) and np.all(got[0])


# What is no gradient of a divergence goes along with one.


def test_all_of_them_teach():
  parts = {
    'reopold': distillation.reopold(),
    'refined': distillation.reopold(switch=0.0),
    'guarded': distillation.guarded(),
    'by_entropy': distillation.by_entropy(),
    'sod': distillation.sod(),
    'atod': distillation.atod(),
  }
  for name, got in mdp.expected(parts, 1).items():
    assert _angle(got, _in_states(_reverse)) > 0.3, name


def test_a_skill_pulls_on_what_it_makes_likelier():
  (_, term) = compose.terms_of(distillation.seed(coef=1.0))
  logs = jax.nn.log_softmax(mdp.POLICY)
  gate = jax.nn.sigmoid(5 * (TEACHER - logs))
  want = _in_states(lambda x: -jnp.sum(jnp.exp(logs) * gate * x, axis=-1)) / 2
  got = mdp.expected_of(term, 1)
  _close(got, want)
  assert _angle(got, _in_states(_reverse)) > 0.3
