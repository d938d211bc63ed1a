"""Expected gradients by enumeration, in float64, against the exact ones."""

import functools

import family
import jax
import jax.numpy as jnp
import mdp
import numpy as np
import pytest

from arl import levels
from arl.kernels import (
  advantages,
  divergences,
)
from arl.methods import compose, grpo, ppo, reinforce, sequence, terms
from launch import table

pytestmark = pytest.mark.usefixtures('x64')


def _close(got, want, what=''):
  np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12, err_msg=what)


def _angle(a, b):
  """Cosine between two gradients."""
  return float(jnp.vdot(a, b) / (jnp.linalg.norm(a) * jnp.linalg.norm(b)))


# The policy gradient.


def test_reinforce_is_exact():
  _close(mdp.expected_of(reinforce.reinforce(), 1), -mdp.exact())


def test_rloo_is_exact():
  _close(mdp.expected_of(reinforce.rloo(), 2), -mdp.exact())


def test_dr_grpo_is_exact_up_to_its_constant_factor():
  # The mean includes the sequence itself, (n - 1) / n, and each token is
  # divided by the budget.
  got = mdp.expected_of(grpo.dr_grpo(length=8), 2)
  _close(got, -mdp.exact() / 2 / 8)


def test_every_surrogate_under_every_ratio_is_exact_on_policy():
  # Sequences of two tokens: the mean of token means is half the sum.
  parts = {
    **family.PRODUCTS,
    'grpo': grpo.grpo(kl_coef=0),
    'cispo': grpo.cispo(),
    'gspo': sequence.gspo(),
  }
  exact = {
    name: part._replace(advantage=advantages.leave_one_out)
    for name, part in parts.items()
  }
  for name, got in mdp.expected(exact, 2).items():
    _close(got, -mdp.exact() / 2, name)


# With a critic.


def _whitened(lam=1.0):
  """PPO's policy term, without a penalty."""
  return ppo.ppo(lam=lam, kl_coef=0)._replace(terms=())


def _actor(lam=1.0):
  """The same without whitening."""
  estimate, _ = compose.steps(_whitened(lam).advantage)
  return _whitened(lam)._replace(advantage=(estimate,))


def test_gae_with_lambda_one_is_exact_for_any_value_function():
  for value in (mdp.SOME_VALUE, np.zeros(4)):
    _close(mdp.expected_of(_actor(), 1, value), -mdp.exact() / 2)


@pytest.mark.parametrize('lam', [0.0, 0.5])
def test_gae_with_a_true_value_function_is_exact_for_any_lambda(lam):
  _close(
    mdp.expected_of(_actor(lam=lam), 1, mdp.true_value()), -mdp.exact() / 2
  )


def test_gae_with_a_wrong_value_function_is_biased_below_lambda_one():
  got = mdp.expected_of(_actor(lam=0.5), 1)
  assert _angle(got, -mdp.exact()) < 0.95


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


def test_the_critic_is_at_rest_at_the_true_value_function():
  part = terms.critic(1.0, gamma=1.0, lam=1.0, clip=0.2)
  _close(mdp.expected_of(part, 1, mdp.true_value(), of='value'), np.zeros(4))
  off = mdp.true_value() + 0.1
  got = mdp.expected_of(part, 1, off, of='value')
  _close(got, 0.1 * mdp.visits() / 2)


# Division by the deviation.


def test_normalizing_reweighs_each_group_by_its_deviation():
  def scaled(rewards, mask, seq, group):
    score = levels.total(rewards, seq, mask)
    once = levels.last(seq, mask)
    centered = advantages.group_center(rewards, mask, seq, group)
    return centered / (levels.std(score, group, once) + 1e-6)

  part = grpo.grpo(kl_coef=0)
  got = mdp.expected_of(part, 2)
  _close(got, mdp.expected_of(part._replace(advantage=scaled), 2))
  # The direction differs from the policy gradient's.
  np.testing.assert_allclose(_angle(got, -mdp.exact()), 0.9826, atol=1e-4)


def test_normalized_pairs_follow_the_chance_to_win():
  # With two rollouts the normalized advantage is the sign of the difference
  # over sqrt(2): the gradient of the chance to beat the old policy.
  unit = functools.partial(advantages.group_normalize, eps=0.0)
  part = grpo.grpo(kl_coef=0)._replace(advantage=unit)
  actions, rewards, chance = map(jnp.asarray, mdp.outcomes(2))

  def wins(policy):
    score = jnp.sum(rewards, axis=-1)
    gap = score[:, 0] - score[:, 1]
    sign = jnp.where(jnp.abs(gap) > 1e-9, jnp.sign(gap), 0)
    mine = jax.vmap(lambda a: jnp.sum(mdp.logp(policy, a[:1])))(actions)
    theirs = jax.vmap(lambda a: jnp.sum(mdp.logp(mdp.POLICY, a[1:])))(actions)
    return jnp.sum(chance * jnp.exp(mine + theirs) * sign)

  _close(mdp.expected_of(part, 2), -mdp.exact(wins) / (2 * np.sqrt(2)))


# Divergences and entropy.


def _kl_by_state(policy, reference, visits):
  """KL(policy || reference) of each state, weighted by fixed visits."""
  gap = jax.nn.log_softmax(policy) - jax.nn.log_softmax(reference)
  return visits @ jnp.sum(jax.nn.softmax(policy) * gap, axis=1)


def test_k1_in_the_loss_has_no_gradient():
  got = mdp.expected_of(terms.kl(1.0, divergences.k1), 1)
  _close(got, np.zeros((4, 3)))


def test_k2_in_the_loss_is_the_divergence_to_the_reference_state_by_state():
  want = mdp.exact(
    lambda policy: _kl_by_state(policy, mdp.REFERENCE, mdp.visits())
  )
  _close(mdp.expected_of(terms.kl(1.0, divergences.k2), 1), want / 2)


def test_k3_in_the_loss_is_the_divergence_from_the_reference():
  want = mdp.exact(
    lambda policy: _kl_by_state(mdp.REFERENCE, policy, mdp.visits())
  )
  _close(mdp.expected_of(terms.kl(1.0, divergences.k3), 1), want / 2)


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


# What is shown above of each recipe; `launch.table` tells it.
EXACT: dict[str, str] = {
  'reinforce.reinforce': 'the policy gradient',
  'reinforce.rloo': 'the policy gradient',
  'grpo.dr_grpo': 'the policy gradient times a constant',
  'grpo.grpo': 'on policy with a plain baseline; what its own does',
  'grpo.cispo': 'on policy with a plain baseline',
  'sequence.gspo': 'on policy with a plain baseline',
  'ppo.ppo': 'by GAE before whitening; what whitening does; the critic at rest',
  'ppo.penalized': 'that of the return less the KL of rollouts',
  'terms.imitation': 'at rest on data of its own',
}


def test_what_is_exact_is_a_recipe():
  names = {name for name, _ in table.recipes()}
  assert names >= EXACT.keys()
