"""Expected gradients by enumeration, in float64, against the exact ones.

Here of the policy's own rollouts: each entry of each axis, and what every
advantage claims. Critics and divergences are in test_exact_terms.py, rollouts
of another policy in test_exact_off_policy.py, likelihoods of reference answers
in test_exact_likelihoods.py.
"""

import functools
import inspect

import axes
import jax
import jax.numpy as jnp
import mdp
import numpy as np
import pytest

from arl import levels
from arl.kernels import (
  advantages,
  aggregations,
  regressions,
  surrogates,
)
from arl.methods import (
  binding,
  compose,
  exploration,
  grpo,
  ppo,
  preference,
  regression,
  reinforce,
  soft,
)

pytestmark = pytest.mark.usefixtures('x64')


def _close(got, want, what=''):
  np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12, err_msg=what)


def _angle(a, b):
  """Cosine between two gradients."""
  return float(jnp.vdot(a, b) / (jnp.linalg.norm(a) * jnp.linalg.norm(b)))


# Each entry of each axis, the others being plain. Sequences have two tokens, so
# the mean of token means is half the sum.

PLAIN = compose.Objective(
  advantage=advantages.leave_one_out,
  surrogate=surrogates.importance,
  aggregate=aggregations.sequence_mean,
)


def test_every_surrogate_is_exact_on_policy():
  parts = {e.name: PLAIN._replace(surrogate=e.kernel) for e in axes.SURROGATES}
  for name, got in mdp.expected(parts, 2).items():
    _close(got, -mdp.exact() / 2, name)


def test_every_ratio_is_exact_on_policy_up_to_the_length_of_a_sum():
  parts = {e.name: PLAIN._replace(ratio=e.kernel) for e in axes.RATIOS}
  for name, got in mdp.expected(parts, 2).items():
    counted = 2 if name == 'trajectory' else 1  # each token has them all
    _close(got, -mdp.exact() / 2 * counted, name)


def test_every_correction_is_exact_on_policy():
  parts = {
    e.name: PLAIN._replace(
      advantage=(*compose.steps(PLAIN.advantage), *e.credit),
      corrections=(e.kernel,),
    )
    for e in axes.CORRECTIONS
  }
  for name, got in mdp.expected(parts, 2).items():
    _close(got, -mdp.exact() / 2, name)


# The sum of the weights of a rollout, with two of them.
WEIGHTS = {
  'by_kind': 2 / (4 + 1e-8),
  'constant': 2 / 16 / 2,
  'group_mean': 1 / 2,
  'sequence_mean': 1 / 2,
  'sequence_sum': 1,
  'token_mean': 1 / 2,
}


def test_every_aggregation_is_exact_on_policy():
  parts = {
    e.name: PLAIN._replace(
      advantage=(*compose.steps(PLAIN.advantage), *e.credit), aggregate=e.kernel
    )
    for e in axes.AGGREGATIONS
    if e.name != 'discriminative'  # weighs by the sign of the advantage
  }
  assert parts.keys() == WEIGHTS.keys()
  for name, got in mdp.expected(parts, 2).items():
    _close(got, -mdp.exact() * WEIGHTS[name], name)


# Every advantage: exact, exact for another objective, or with a reason why not.
# In groups of two, and summed over the tokens of a rollout.

EXACT = {
  'bi_level_gae': 1,
  'gae': 1,  # lam = 1, any value function
  'greedy_baseline': 1,
  'group_center': 1 / 2,  # the mean includes the rollout itself: (n - 1) / n
  'leave_one_out': 1,
  'length_weighted': 1 / 2,  # where all lengths are equal
  'over_constant': 1,
  'reward_to_go': 1,
  'turn_gae': 1,
}
ANOTHER = {
  'best_of_group': 'of the mean of the best of a group',
  'completed_advantage': 'of scores of steps: test_states.py',
  'garl': 'of the likelihood of an answer: test_exact_likelihoods.py',
  'paft': 'of the likelihood of an answer: test_exact_likelihoods.py',
  'locked': 'of scores of steps, and of outcomes: test_segments.py',
  'pair_sign': 'of the chance to win',
  'shifts': 'of scores of steps: test_segments.py',
  'shorter': 'of few tokens: test_states.py',
  'sign_balanced': 'of the chance of a positive reward, by a factor of it',
}
BIASED = {
  'batch_scaled': 'divides by a deviation of the batch',
  'beginnings': 'divides by deviations of a group',
  'gain': 'values of states that the samples themselves make',
  'group_normalize': 'divides by the deviation of the group',
  'group_process': 'compares turns of one group, each with all others',
  'length_adaptive_gae': 'lam below 1: as good as the critic',
  'outcome_of_turns': 'divides by a deviation of turns',
  'return_to_go': 'divides by a deviation of those that meet in a state',
  'step_return_to_go': 'divides by a deviation, compares turns of one index',
  'tree_normalize': 'divides by deviations of a tree and of a group',
  'way_out': 'values of states that the samples themselves make',
  'way_out_and_gain': 'as its parts',
  'way_out_and_shorter': 'as its parts',
}


def _summed(kernel):
  return reinforce.reinforce()._replace(advantage=kernel)


def test_every_advantage_is_accounted_for():
  names = [*EXACT, *ANOTHER, *BIASED]
  assert sorted(names) == sorted(e.name for e in axes.ADVANTAGES)


def test_advantages_that_are_exact():
  parts = {}
  for entry in axes.ADVANTAGES:
    function = binding.function_of(entry.kernel)
    numbers = inspect.signature(function).parameters
    discounts = 'gamma', 'lam', 'turn_gamma'
    ones = {name: 1.0 for name in numbers if name in discounts}
    if entry.name in EXACT:
      parts[entry.name] = _summed(functools.partial(entry.kernel, **ones))
  for name, got in mdp.expected(parts, 2).items():
    _close(got, -mdp.exact() * EXACT[name], name)


def test_advantages_that_are_biased_are_not_exact_up_to_a_factor():
  parts = {
    e.name: _summed(e.kernel) for e in axes.ADVANTAGES if e.name in BIASED
  }
  for name, got in mdp.expected(parts, 2).items():
    assert _angle(got, -mdp.exact()) < 0.9999, name


@pytest.mark.parametrize('group', [2, 3])
def test_the_best_of_a_group_is_the_gradient_of_its_mean(group):
  part = exploration.pass_at_k('reinforce.reinforce')
  got = mdp.expected_of(part, group)
  want = mdp.exact(mdp.mean_over_groups(jnp.max, group))
  _close(got, -want / group)


def _success(policy):
  """The chance that a rollout earns more than nothing."""
  earned = lambda score: jnp.where(score[0] > 0, 1.0, 0.0)
  return mdp.mean_over_groups(earned, 1)(policy)


def test_balanced_signs_follow_the_chance_of_success():
  # Among n - 1 others k are correct: 1 - P(k = n - 1) + E[k / (n - k)].
  part = exploration.signbalance('reinforce.reinforce')
  chance = float(_success(jnp.asarray(mdp.POLICY)))
  for group, factor in ((2, 1), (3, 1 + chance)):
    _close(mdp.expected_of(part, group), -mdp.exact(_success) * factor)


def _wins(policy):
  """The chance to beat the old policy less that to lose to it."""
  actions, rewards, chance = map(jnp.asarray, mdp.outcomes(2))
  score = jnp.sum(rewards, axis=-1)
  gap = score[:, 0] - score[:, 1]
  sign = jnp.where(jnp.abs(gap) > 1e-9, jnp.sign(gap), 0)
  mine = jax.vmap(lambda a: jnp.sum(mdp.logp(policy, a[:1])))(actions)
  theirs = jax.vmap(lambda a: jnp.sum(mdp.logp(mdp.POLICY, a[1:])))(actions)
  return jnp.sum(chance * jnp.exp(mine + theirs) * sign)


def test_normalized_pairs_follow_the_chance_to_win():
  # With two rollouts the normalized advantage is the sign of the difference
  # over sqrt(2).
  unit = functools.partial(advantages.group_normalize, eps=0.0)
  part = grpo.grpo(kl_coef=0)._replace(advantage=unit)
  _close(mdp.expected_of(part, 2), -mdp.exact(_wins) / (2 * np.sqrt(2)))
  # The ratio of whole sequences: each of two tokens has the gradient of both.
  _close(mdp.expected_of(regression.pair_soft(), 2), -mdp.exact(_wins))


def test_online_dpo_at_its_reference_follows_the_chance_to_win():
  online = preference.dpo(beta=0.3)
  acting = binding.on(online.ratio, ref_logp='old_logp')
  part = online._replace(ratio=acting)
  _close(mdp.expected_of(part, 2), -0.3 * mdp.exact(_wins))
  # Here the reference is what sampled, so it is the recipe as it stands.
  _close(
    mdp.expected_of(preference.agent_q(beta=0.3), 2), -0.3 * mdp.exact(_wins)
  )


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


# Recipes as they are.


@pytest.mark.parametrize(
  'part, group, factor',
  [
    (reinforce.reinforce(), 1, 1),
    (reinforce.remax(), 1, 1),
    (soft.topr(), 1, 1),
    (reinforce.rloo(), 2, 1),
    (reinforce.opo(), 2, 1 / 2 / 2),  # a mean over tokens
    (grpo.dr_grpo(length=8), 2, 1 / 2 / 8),
    (grpo.grpo_pp(length=8), 2, 1 / 8),
    (soft.bpo(), 2, 1 / 2 / 2),
    (regression.kimi_omd(tau=0.5), 2, 1 / 2),  # 2 tau (n - 1) / n
    (regression.kimi_omd(tau=0.3), 2, 0.6 / 2),
    (ppo.vtrace(), 1, 1 / 2),
  ],
  ids=lambda value: None,
)
def test_recipes_that_are_exact_up_to_a_factor(part, group, factor):
  _close(mdp.expected_of(part, group), -mdp.exact() * factor)


# Regressions that compare a group: a gradient for each sequence.


def _pulled_to(target):
  """Steps whose advantage is n (target - 1 / n), in the log-likelihood."""

  def gap(target, group, seq, mask):
    n = levels.count(group, levels.last(seq, mask), target.dtype)
    return jnp.exp(target) * n - 1

  return (*target, ('advantage', gap))


@pytest.mark.parametrize(
  'part',
  [regression.lpo(), regression.lpo_center(), regression.lpo_mean()],
  ids=['lpo', 'lpo_center', 'lpo_mean'],
)
def test_lists_pull_a_sequence_by_its_target_less_its_share(part):
  # On policy the shares are even.
  want = mdp.expected_of(_summed(_pulled_to(part.advantage)), 2)
  _close(mdp.expected_of(part, 2), want)


def test_lists_are_dr_grpo_to_first_order():
  got = mdp.expected_of(regression.lpo_center(tau=1e4), 2)
  want = -mdp.exact() / 2 / 1e4
  np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-9)


def test_forward_and_reverse_lists_agree_to_first_order():
  part = regression.lpo_center(tau=1e4)
  reverse = part._replace(surrogate=regressions.listwise_reverse)
  forward, reverse = (mdp.expected_of(p, 2) for p in (part, reverse))
  np.testing.assert_allclose(forward, reverse, rtol=1e-3, atol=1e-9)
