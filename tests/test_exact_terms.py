"""Expected gradients of critics, divergences and entropy, by enumeration.

As in test_exact_gradients.py.
"""

import family
import jax
import jax.numpy as jnp
import mdp
import numpy as np
import pytest

from arl.kernels import divergences
from arl.methods import agentic, compose, critics, ppo, reinforce, terms

pytestmark = pytest.mark.usefixtures('x64')


def _close(got, want, what=''):
  np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12, err_msg=what)


def _angle(a, b):
  """Cosine between two gradients."""
  return float(jnp.vdot(a, b) / (jnp.linalg.norm(a) * jnp.linalg.norm(b)))


# With a critic.


def _whitened(lam=1.0):
  """PPO's policy term, without a penalty."""
  return ppo.ppo(lam=lam, kl_coef=0)._replace(terms=())


def _actor(lam=1.0):
  """The same without whitening."""
  estimate, _ = compose.steps(_whitened(lam).advantage)
  return _whitened(lam)._replace(advantage=(estimate,))


def _turns(lam=1.0):
  """Turn-PPO's policy term; each action is a turn."""
  return agentic.turn_ppo(gamma=1.0, lam=lam)._replace(terms=())


def _adaptive(alpha):
  """BPCO's policy term, its value not bounded; lam = 1 - 1 / (2 alpha)."""
  _, estimate = compose.steps(ppo.bpco(alpha=alpha).advantage)
  return ppo.bpco()._replace(advantage=(estimate,), terms=())


@pytest.mark.parametrize('value', [mdp.SOME_VALUE, np.zeros(4)])
def test_with_lambda_one_any_value_function_is_exact(value):
  parts = {'gae': _actor(), 'turns': _turns(), 'vtrace': ppo.vtrace()}
  for name, got in mdp.expected(parts, 1, value=value).items():
    _close(got, -mdp.exact() / 2, name)


def test_with_a_true_value_function_any_lambda_is_exact():
  parts = {
    **{f'gae {lam}': _actor(lam) for lam in (0.0, 0.5)},
    **{f'turns {lam}': _turns(lam) for lam in (0.0, 0.5)},
    **{f'by length {alpha}': _adaptive(alpha) for alpha in (0.4, 2.0)},
    'vtrace': ppo.vtrace(lam=0.5),
  }
  got = mdp.expected(parts, 1, value=mdp.true_value())
  for name, gradient in got.items():
    _close(gradient, -mdp.exact() / 2, name)


def test_a_wrong_value_function_is_biased_below_lambda_one():
  parts = {
    'gae': _actor(0.5),
    'turns': _turns(0.5),
    'by length': _adaptive(0.8),
  }
  for name, got in mdp.expected(parts, 1).items():
    assert _angle(got, -mdp.exact()) < 0.95, name


def test_whitening_shifts_and_scales_each_batch():
  # Of each batch: (raw gradient + mean * gradient of the log-prob) / deviation.
  # So with data-dependent numbers the expectation is not the policy gradient.
  value = jnp.asarray(mdp.SOME_VALUE)
  parts = {'raw': _actor(), 'white': _whitened(), 'nll': terms.imitation()}
  _, gradients = mdp.each(parts, 1)
  raw, white, nll = (gradients[name]['policy'] for name in parts)

  credit = compose.method(_actor()).credit

  def moments(actions, rewards):
    params = {'policy': mdp.POLICY, 'value': value}
    columns = mdp.columns(params, actions, rewards, value)
    advantage = credit(columns)['policy']['advantage']
    return jnp.mean(advantage), jnp.sqrt(jnp.var(advantage, ddof=1) + 1e-8)

  actions, rewards, _ = mdp.outcomes(1)
  mean, deviation = (
    x[:, None, None] for x in jax.jit(jax.vmap(moments))(actions, rewards)
  )
  _close(white, (raw - mean * nll) / deviation)
  assert _angle(mdp.expected_of(_whitened(), 1), -mdp.exact()) < 0.95


CRITICS = {
  'ppo': ppo.ppo(kl_coef=0, lam=1.0),
  'vc_ppo': ppo.vc_ppo(),
  'vapo': ppo.vapo(),
  'starpo': ppo.starpo(),
  'starpo_s': ppo.starpo_s(),
  'sao': ppo.sao(),
  'vtrace': ppo.vtrace(),
  'turn_ppo': agentic.turn_ppo(gamma=1.0, lam=1.0),
}


@pytest.mark.parametrize('off', [0.0, 0.1])
def test_critics_are_at_rest_at_the_true_value_function(off):
  parts = {'mc_value': ppo.mc_value(), 'alone': critics.alone()}
  for name, made in CRITICS.items():
    parts[name] = made.terms[0]._replace(coef=1.0)
    assert parts[name].name == 'value'
  value = mdp.true_value() + off
  for name, gradient in mdp.expected(parts, 1, of='value', value=value).items():
    _close(gradient, off * mdp.visits() / 2, name)


# Divergences and entropy.


def _kl_by_state(policy, reference, visits):
  """KL(policy || reference) of each state, weighted by fixed visits."""
  gap = jax.nn.log_softmax(policy) - jax.nn.log_softmax(reference)
  return visits @ jnp.sum(jax.nn.softmax(policy) * gap, axis=1)


def _to_reference(policy):
  return _kl_by_state(policy, mdp.REFERENCE, mdp.visits())


def _from_reference(policy):
  return _kl_by_state(mdp.REFERENCE, policy, mdp.visits())


def _l1(policy):
  gap = jax.nn.softmax(policy) - jax.nn.softmax(mdp.REFERENCE)
  return mdp.visits() @ jnp.sum(jnp.abs(gap), axis=1)


def _nothing(policy):
  return 0.0 * jnp.sum(policy)


# What the gradient of each estimator in the loss is that of, state by state.
ESTIMATED = {
  'absolute': _l1,
  'k1': _nothing,
  'k2': _to_reference,
  'k3': _from_reference,
  'k3_cut': _from_reference,  # no token is that far away here
  'k3_plus': _to_reference,
  'k3_unbiased': _to_reference,
}


def test_what_every_divergence_in_the_loss_is_the_gradient_of():
  parts = {n: terms.kl(1.0, kernel) for n, kernel in family.ESTIMATORS.items()}
  assert parts.keys() == ESTIMATED.keys()
  for name, got in mdp.expected(parts, 1).items():
    _close(got, mdp.exact(ESTIMATED[name]) / 2, name)


def test_k3_plus_has_the_gradient_of_k2_in_each_rollout():
  parts = {k.__name__: terms.kl(1.0, k) for k in (
    divergences.k2, divergences.k3_plus
  )}  # fmt: skip
  _, gradients = mdp.each(parts, 1, policy=mdp.MOVED)
  k2, k3_plus = (gradients[name]['policy'] for name in parts)
  _close(k3_plus, k2)


def test_after_a_move_only_the_weighted_k3_is_the_divergence():
  # Tokens are of the old policy: its visits, its choices.
  parts = {n: terms.kl(1.0, kernel) for n, kernel in family.ESTIMATORS.items()}
  want = mdp.exact_at(mdp.MOVED, _to_reference) / 2
  exact = {
    name
    for name, got in mdp.expected(parts, 1, policy=mdp.MOVED).items()
    if np.allclose(got, want, rtol=1e-9, atol=1e-12)
  }
  assert exact == {'k3_unbiased'}


def test_an_adaptive_divergence_is_that_times_its_knob():
  got = mdp.expected_of(terms.adaptive_kl(), 1)
  _close(got, 0.3 * mdp.exact(_to_reference) / 2)


@pytest.mark.parametrize(
  'part, group, factor',
  [(reinforce.reinforce(), 1, 1), (reinforce.rloo(), 2, 1), (_actor(), 1, 2)],
  ids=['reinforce', 'rloo', 'gae'],
)
def test_k1_in_the_reward_is_the_divergence_of_rollouts(part, group, factor):
  got = mdp.expected_of(ppo.penalized(part, coef=0.3), group)
  want = mdp.exact(
    lambda policy: mdp.mean_return(policy) - 0.3 * mdp.divergence(policy)
  )
  _close(got, -want / factor)


def test_the_entropy_bonus_is_the_entropy_of_the_states_seen():
  got = mdp.expected_of(terms.entropy(0.1), 1)
  want = mdp.exact(lambda policy: mdp.visits() @ mdp.entropy(policy))
  _close(got, -0.1 * want / 2)


def test_imitation_pulls_to_the_data():
  # The data being the policy's own, there is nothing to learn.
  _close(mdp.expected_of(terms.imitation(), 1), np.zeros((4, 3)))


def test_imitation_of_what_succeeds_is_the_policy_gradient_of_success():
  # A mean over the tokens of successes: with one rollout, its own two.
  earned = lambda score: jnp.where(score[0] > 0, 1.0, 0.0)
  want = mdp.exact(mdp.mean_over_groups(earned, 1))
  _close(mdp.expected_of(terms.positive(1.0), 1), -want / 2)
