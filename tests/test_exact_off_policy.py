"""Expected gradients of rollouts that another policy sampled, by enumeration.

As in test_exact_gradients.py, but a behavior acts. What weighs whole rollouts
by the product of their ratios is exact; what weighs tokens takes each action
back to the policy but leaves the states to the behavior; limits bias both.
"""

import functools

import jax.numpy as jnp
import mdp
import numpy as np
import pytest

from arl.kernels import advantages, aggregations, ratios, surrogates, weights
from arl.methods import binding, compose, offpolicy, ppo, reinforce, soft

pytestmark = pytest.mark.usefixtures('x64')
OPEN = 1e6  # a limit that no ratio here reaches


def _close(got, want, what=''):
  np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12, err_msg=what)


def _expected(parts, group=1, **settings):
  return mdp.expected(parts, group, behavior=mdp.BEHAVIOR, **settings)


def _true_actor(surrogate=surrogates.importance):
  """An actor whose advantages are exact in each state and for each action."""
  estimate = compose.steps(ppo.ppo(lam=0.0, kl_coef=0).advantage)[:1]
  return compose.Objective(
    advantage=estimate,
    surrogate=surrogate,
    aggregate=aggregations.sequence_sum,
  )


# Whole rollouts.


def _by_rollout(base):
  return offpolicy.tis_sequence(base, low=0.0, high=OPEN)


ROLLOUTS = {
  'tis_sequence of REINFORCE': (_by_rollout(reinforce.reinforce()), 1),
  'tis_sequence of ReMax': (_by_rollout(reinforce.remax()), 1),
  'the ratio of the trajectory': (
    compose.Objective(
      advantage=advantages.over_constant,
      ratio=binding.on(ratios.trajectory, old_logp='rollout_logp'),
      surrogate=surrogates.importance,
      aggregate=aggregations.sequence_mean,  # a token has all gradients
    ),
    1,
  ),
  'TOPR without limits': (
    soft.topr()._replace(
      surrogate=functools.partial(
        weights.tapered,
        low_positive=0.0,
        high_positive=OPEN,
        high_negative=OPEN,
      )
    ),
    1,
  ),
  'tis_sequence of RLOO': (_by_rollout(reinforce.rloo()), 2),
}


@pytest.mark.parametrize('name', ROLLOUTS)
def test_the_product_of_ratios_is_exact(name):
  part, group = ROLLOUTS[name]
  (got,) = _expected({name: part}, group).values()
  _close(got, -mdp.exact())


def test_nothing_else_is_exact_for_the_mean_of_rollouts():
  base = reinforce.reinforce()
  parts = {
    'no weight': base,
    'by token': offpolicy.decoupled_ppo(base),
    'product, limited': offpolicy.tis_sequence(base, high=1.05),
    'by token, limited': offpolicy.tis(base, high=1.05),
    'TOPR': soft.topr(),
    'two levels': offpolicy.two_level(base, low=0.0, high=OPEN),
    'normalized': offpolicy.tis_normalized(base, high=OPEN),
  }
  for name, got in _expected(parts).items():
    assert not np.allclose(got, -mdp.exact(), rtol=1e-3), name


# Tokens: the policy's choice in the states that the behavior visits.

TOKENS = {
  'decoupled': offpolicy.decoupled_ppo(_true_actor()),
  'tis': offpolicy.tis(_true_actor(), high=OPEN),
  'mis': offpolicy.mis(_true_actor(), low=0.0, high=OPEN),
  'anchored': offpolicy.anchored(_true_actor()),
  'dis': offpolicy.dis(_true_actor(), low=1.0, high=OPEN),
  'dppo': soft.dppo(_true_actor(), low=1.0, high=1.0),
  'dppo_kl': soft.dppo_kl(_true_actor(), low=OPEN, high=OPEN),
  'cispo to the sampler': offpolicy.anchored(
    _true_actor(functools.partial(weights.clipped_weight, low=1.0, high=OPEN))
  ),
}


def test_ratios_of_tokens_are_exact_in_the_states_that_were_visited():
  got = _expected(TOKENS, value=mdp.true_value())
  want = mdp.gradient_in_states_of(mdp.BEHAVIOR)
  for name, gradient in got.items():
    _close(gradient, -want, name)
  # Under the policy's own visits that is the policy gradient.
  _close(mdp.gradient_in_states_of(mdp.POLICY), mdp.exact())


def test_limits_and_bands_bias_it():
  parts = {
    'tis': offpolicy.tis(_true_actor(), high=1.05),
    'mis': offpolicy.mis(_true_actor(), low=0.9, high=1.1),
    'dis': offpolicy.dis(_true_actor(), low=0.1, high=0.1),
    'two levels': offpolicy.two_level(_true_actor(), low=0.0, high=OPEN),
    'no weight': _true_actor(),
  }
  want = mdp.gradient_in_states_of(mdp.BEHAVIOR)
  for name, got in _expected(parts, value=mdp.true_value()).items():
    assert not np.allclose(got, -want, rtol=1e-3), name


# V-trace.


def _vtrace(cap):
  made = ppo.vtrace(delta_cap=cap, trace_cap=cap, value_coef=1.0)
  return made._replace(aggregate=aggregations.sequence_sum)


@pytest.mark.parametrize('value', [mdp.SOME_VALUE, np.zeros(4)])
def test_vtrace_without_limits_is_exact_for_any_value_function(value):
  (got,) = _expected({'it': _vtrace(OPEN)}, value=value).values()
  _close(got, -mdp.gradient_in_states_of(mdp.BEHAVIOR))


def test_vtrace_with_its_limits_is_not():
  (got,) = _expected({'it': _vtrace(1.0)}).values()
  want = mdp.gradient_in_states_of(mdp.BEHAVIOR)
  assert not np.allclose(got, -want, rtol=1e-3)


def test_the_critic_of_vtrace_is_at_rest_at_the_policys_value():
  settings = {'of': 'value', 'value': mdp.true_value()}
  (term,) = _vtrace(OPEN).terms
  (got,) = _expected({'it': term}, **settings).values()
  _close(got, np.zeros(4))
  (term,) = _vtrace(0.9).terms
  (got,) = _expected({'it': term}, **settings).values()
  assert np.max(jnp.abs(got)) > 1e-3  # of a policy between the two
