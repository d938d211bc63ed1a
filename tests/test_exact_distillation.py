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
from arl.methods import compose, distillation, matching

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


# Over all tokens no sampled one is needed: the form itself is differentiated.


def _forward(logs):
  return jnp.sum(jnp.exp(TEACHER) * (TEACHER - logs), axis=-1)


def _mixed(logs, beta=0.5):
  """beta KL(teacher || M) + (1 - beta) KL(policy || M), in the plain."""
  own, theirs = jnp.exp(logs), jnp.exp(TEACHER)
  mixture = jnp.log(beta * theirs + (1 - beta) * own)
  parts = (
    beta * theirs * (TEACHER - mixture),
    (1 - beta) * own * (logs - mixture),
  )
  return jnp.sum(parts[0] + parts[1], axis=-1)


WHOLE = {
  'opd_full': (matching.opd_full(), _reverse),
  'opd_top': (matching.opd_top(), _reverse),
  'opd_tail': (matching.opd_tail(), _reverse),
  'neohorse': (matching.neohorse(), _reverse),
  'opd_candidates': (matching.opd_candidates(), _reverse),
  'kd_full': (matching.kd_full(), _forward),
  'gkd_full': (matching.gkd_full(), _mixed),
  'opad': (matching.opad(), _mixed),
  'gkd': (matching.gkd(), _mixed),
  'gkd 0': (matching.gkd(beta=0.0), _forward),
  'gkd 1': (matching.gkd(beta=1.0), _reverse),
  'gkd 0.2': (matching.gkd(beta=0.2), functools.partial(_mixed, beta=0.2)),
}


def test_all_tokens_have_the_gradient_of_their_divergence():
  # A tail of no tokens still has 1e-7.
  parts = {name: part for name, (part, _) in WHOLE.items()}
  for name, got in mdp.expected(parts, 1).items():
    want = _in_states(WHOLE[name][1]) / 2
    np.testing.assert_allclose(got, want, atol=1e-6, err_msg=name)
    if name.endswith(('full', 'opad', 'top', 'candidates')):
      _close(got, want, name)
    assert _angle(got, _in_states(_reverse)) > 0.9, name


def test_over_all_tokens_less_varies_than_by_sampled_ones():
  parts = {'all': matching.opd_full(), 'sampled': distillation.opd()}
  chance, gradients = mdp.each(parts, 1)
  spread = {
    name: np.tensordot(chance, (g['policy'] - _in_states(_reverse) / 2) ** 2, 1)
    for name, g in gradients.items()
  }
  assert 0 < np.sum(spread['all']) < np.sum(spread['sampled']) / 3


def test_inside_the_trust_region_by_a_token_outside_by_all():
  chances = np.exp(jax.nn.log_softmax(mdp.POLICY))
  gap = np.log(chances) - TEACHER
  inside = np.exp(np.minimum(-gap, 0)) > 0.5  # the noise is one half
  assert np.any(inside) and not np.all(inside)

  def mixed(logs):
    sampled = jnp.sum(chances * inside * gap * logs, axis=-1)
    return sampled + np.sum(chances * ~inside, axis=-1) * _forward(logs)

  got = mdp.expected_of(matching.tropd(), 1)
  _close(got, _in_states(mixed) / 2)
  assert _angle(got, _in_states(_reverse)) > 0.5


def test_both_divergences_where_the_teacher_wavers():
  entropy = -np.sum(np.exp(TEACHER) * TEACHER, axis=-1)
  tau = float(np.mean(np.sort(entropy)[1:3]))
  unsure = np.where(entropy > tau, 1.0, 0.0)
  want = _in_states(lambda logs: _reverse(logs) + unsure * _forward(logs)) / 2
  _close(mdp.expected_of(matching.eopd(tau=tau), 1), want)
