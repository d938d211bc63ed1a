"""Laws of rewards: baselines, groups without a comparison, the unit.

Over all methods, as in test_laws.py. A law that some methods do not keep, and
should not, names the kernels that are the reason, and then demands that every
method without them keeps it and every method with one of them does not.
"""

import copy

import batches
import family
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl import levels
from arl.kernels import (
  advantages,
  credit,
  critics,
  distillation,
  gates,
  likelihoods,
  preference,
  prospect,
  regressions,
  returns,
  reward_models,
  segments,
  shaping,
  states,
  traces,
  trees,
)
from arl.methods import binding, compose

pytestmark = pytest.mark.usefixtures('compiled_once')

# Returns without a baseline from the group: to go, or against a critic.
TO_GO = (
  returns.reward_to_go,
  returns.gae,
  returns.length_adaptive_gae,
  credit.bi_level_gae,
  credit.turn_gae,
  traces.vtrace,
  advantages.over_constant,
  advantages.greedy_baseline,
)
# Baselines of other units than the sequences of a group.
OF_STEPS = (
  credit.group_process,
  credit.outcome_of_turns,
  credit.step_return_to_go,
)
# Returns of turns that are discounted, so that a sequence's length counts.
DISCOUNTED = (
  states.completed_advantage,
  states.return_to_go,
  states.way_out_and_gain,
)
OF_STATES = *DISCOUNTED, states.gain, states.way_out_and_shorter
# What moves an advantage between the tokens of a sequence, or adds a turn's.
MOVED = (
  segments.by_feedback,
  segments.by_quality,
  segments.shifts,
  trees.beginnings,
  trees.by_branching,
  trees.node_mean,
)
LIKELIHOODS = likelihoods.garl, likelihoods.paft
# A teacher's word on each token.
TAUGHT = (
  distillation.reverse_kl,
  distillation.extrapolated,
  distillation.floored,
)
# Rewards to which something is added that is no reward of the environment.
SHAPED = (
  shaping.kl_in_reward,
  shaping.overlong,
  shaping.with_process,
  shaping.with_step_share,
)


def _remade(change, stack=0):
  """Results of batches whose lists of sequences `change` has changed."""
  made = copy.deepcopy(batches.some(stack))
  for each in made:
    change(each)
  return family.evaluate(batches.join([batches.batch(each) for each in made]))


def _differ(got, want, factor=1.0):
  """Names whose gradients are not `factor` times what they were."""
  return {
    name
    for name in want
    for a, b in zip(
      jax.tree.leaves(got[name].gradient),
      jax.tree.leaves(want[name].gradient),
      strict=True,
    )
    if not np.allclose(a, factor * b, atol=1e-5, rtol=1e-3)
  }


def _end(one):
  """Where the last token of the policy is, if any."""
  return np.flatnonzero(one['mask'])[-1:]


# Baselines.


@jax.jit
@jax.vmap
def _group_sums(columns, advantage):
  """The sum over the sequences of each group, each counted once."""
  once = levels.last(columns['seq'], columns['mask'])
  return levels.segment_sum(advantage, columns['group'], once)


def test_baselines_of_a_group_sum_to_zero():
  apart = set()
  for name in family.OBJECTIVES:
    advantage = family.plain()[name].credits['policy']['advantage']
    sums = _group_sums(batches.padded(), jnp.asarray(advantage))
    if not np.allclose(sums, 0, atol=1e-5):
      apart.add(name)
  excused = family.made_of(
    *TO_GO,
    *OF_STEPS,
    *OF_STATES,
    *MOVED,
    *LIKELIHOODS,
    *TAUGHT,
    advantages.across_groups,  # adds what a group has in common
    advantages.amplified,  # the better outweigh the worse
    advantages.best_of_group,  # only the best counts
    gates.with_episode,  # adds what an episode earned
    advantages.entropy_weighted,  # differs from token to token
    advantages.length_weighted,  # sums to 0 by tokens
    advantages.rare_correct,  # keeps the sum where correct rewards are alike
    returns.whiten,  # over tokens
  )
  assert apart == excused & set(family.OBJECTIVES)


def test_the_baseline_of_opo_sums_to_zero_by_tokens():
  columns, result = batches.padded(), family.plain()['reinforce.opo']
  for group, mask, advantage in zip(
    columns['group'].ids,
    columns['mask'],
    result.credits['policy']['advantage'],
  ):
    sums = np.bincount(group[mask], advantage[mask])
    np.testing.assert_allclose(sums, 0, atol=1e-5)


def test_a_constant_added_to_the_rewards_of_a_group_changes_nothing():
  def add(made):
    for one in made:
      if one['group'] == 0:
        one['rewards'][_end(one)] += 0.7

  assert _differ(_remade(add), family.plain()) == family.reading(
    'rewards'
  ) & family.made_of(
    *TO_GO,
    *DISCOUNTED,
    advantages.across_groups,
    returns.lambda_return,  # of a critic
    credit.group_process,  # normalizes turns
    advantages.batch_scaled,  # divides by the deviation of the batch
    advantages.sign_balanced,  # 0 is the border of what is correct
    gates.with_episode,  # of what could be earned
    advantages.rare_correct,
    prospect.desirable,
    regressions.correct,
    regressions.listwise_target_by_mean,  # divides by the mean
    reward_models.judged,
    reward_models.discounted_outcome,  # rewards are 0 to 1
  )


# Groups without a comparison.


def _gradient_of_terms():
  """Names of methods with a term beside the policy's that pulls on logp."""
  return {
    name
    for name, part in family.PARTS.items()
    for term in compose.terms_of(part)
    if term.name != 'policy'
    and any('logp' in binding.read_by(kernel) for _, kernel in term.loss)
  }


def _check_no_comparison(results, *reasons):
  """Demands no advantage and no gradient but of methods with a reason."""
  compared, pulled = set(), set()
  for name, result in results.items():
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(result)), name
    if name in family.OBJECTIVES and np.any(
      result.credits['policy']['advantage']
    ):
      compared.add(name)
    if np.any(result.gradient['logp']):
      pulled.add(name)
  excused = family.made_of(*reasons) & set(family.OBJECTIVES)
  assert compared == excused
  excused |= family.made_of(
    regressions.mirror_descent,  # back to old_logp
    prospect.desirable,  # each answer for itself
  )
  assert pulled == excused | _gradient_of_terms()


def test_equal_rewards_give_no_advantage_and_no_gradient():
  def equal(made):
    for one in made:
      one['rewards'] = np.zeros(len(one['mask']))
      one['rewards'][_end(one)] = 0.7

  _check_no_comparison(
    _remade(equal),
    *(*TO_GO, *DISCOUNTED, *LIKELIHOODS, *TAUGHT, *SHAPED),
    credit.group_process,
    gates.with_episode,
    segments.locked,  # scores of steps
    segments.shifts,
    states.way_out_and_shorter,  # by tokens
  )


def test_groups_of_one_give_no_advantage_and_no_gradient():
  def part(made):
    for group, one in enumerate(made):
      one.update(group=group, tree=np.full_like(one['tree'], group))

  _check_no_comparison(
    _remade(part),
    *(*TO_GO, *DISCOUNTED, *LIKELIHOODS, *TAUGHT),
    advantages.across_groups,
    gates.with_episode,
    segments.shifts,  # over the turns of a sequence
  )


def test_sequences_of_one_token():
  def cut(made):
    for one in made:
      one.update({n: x[-1:] for n, x in one.items() if n != 'group'})

  for name, result in _remade(cut).items():
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(result)), name


@jax.jit
def _group_advantages(rewards, mask):
  """Every group baseline, for one group of sequences of one token."""
  rows = jnp.arange(len(rewards), dtype=jnp.int32)[:, None]
  seq = levels.Level(rows, len(rewards))
  group = levels.Level(jnp.zeros_like(rows), 1)
  kernels = (
    advantages.batch_scaled,
    advantages.best_of_group,
    advantages.group_center,
    advantages.group_normalize,
    advantages.leave_one_out,
    advantages.length_weighted,
    advantages.pair_sign,
    advantages.sign_balanced,
  )
  return [kernel(rewards, mask, seq, group) for kernel in kernels]


@pytest.mark.parametrize('value', [0.1, 0.3, 0.35, 0.6, 0.7, 1 / 3, 1.1])
@pytest.mark.parametrize('rounded', ['float32', 'bfloat16'])
def test_equal_rewards_give_exactly_no_advantage(value, rounded):
  reward = jnp.asarray(value, rounded).astype(jnp.float32)
  for size in range(1, 17):
    mask = jnp.arange(16)[:, None] < size
    for got in _group_advantages(jnp.full((16, 1), reward), mask):
      np.testing.assert_array_equal(got, np.zeros((16, 1)))


# The unit of rewards.

# What sets the size of credit by itself.
NORMALIZED = (
  advantages.batch_scaled,
  advantages.group_normalize,
  advantages.group_scale,
  advantages.pair_sign,
  advantages.sign_balanced,
  *OF_STEPS,
  credit.turn_whiten,
  preference.wins,
  prospect.desirable,
  regressions.correct,
  regressions.listwise_target_by_mean,
  regressions.moved_mass,
  returns.whiten,
  segments.locked,
  trees.beginnings,
  trees.tree_normalize,
)
# What has a unit of its own, in which rewards are measured.
MEASURED = (
  shaping.kl_in_reward,
  shaping.overlong,
  critics.bounded,
  critics.expected_value,
  critics.nearest_outcome,
  gates.episode_reward,  # rewards are 0 to 1
  regressions.mirror_descent,
  segments.by_quality,  # a share
  trees.by_branching,  # a deviation beside 1
)


def test_rewards_of_twice_the_size_count_the_same_or_twice():
  units = (
    'rewards', 'process_rewards', 'baseline', 'old_value', 'turn_value',
  )  # fmt: skip

  def double(made):
    for one in made:
      one.update({name: 2 * one[name] for name in units})

  after, before = (
    {n: r._replace(gradient=r.gradient['logp']) for n, r in each.items()}
    for each in (_remade(double), family.plain())
  )
  with_logp = {n for n in before if np.any(before[n].gradient)}
  same = with_logp - _differ(after, before)
  twice = with_logp - _differ(after, before, factor=2.0)
  unit = family.made_of(*MEASURED) | {'regression.lpo_center'}  # tau is fixed
  rewarded = {n for name in units for n in family.reading(name)} & with_logp
  assert same == with_logp - unit - (rewarded - family.made_of(*NORMALIZED))
  assert twice == rewarded - unit - family.made_of(*NORMALIZED)
