"""Laws of the policy's gradient: on policy, where it goes, and how it is run.

Over all methods, as in test_laws.py.
"""

import itertools

import batches
import family
import jax
import numpy as np
import pytest

from arl.kernels import surrogates
from arl.methods import binding

pytestmark = pytest.mark.usefixtures('compiled_once')

# On policy every objective is the policy gradient, and off policy it is not.


CLAIMED = [
  name
  for name in family.OBJECTIVES
  if name in family.RECIPES
  and 'target' not in binding.read_by(family.OBJECTIVES[name].surrogate)
]


@pytest.mark.parametrize('stack', batches.STACKS[:2])
def test_on_policy_all_are_the_policy_gradient(stack):
  columns = family.on_policy(batches.padded(stack))
  results = family.evaluate(columns)
  for name in CLAIMED:
    want = family.reinforced(family.PARTS[name], columns, results[name])
    family.close(results[name].gradient['logp'], want, name)


def test_off_policy_only_those_without_a_weight_are():
  columns = batches.padded()
  apart = set()
  for name in CLAIMED:
    result = family.plain()[name]
    want = family.reinforced(family.PARTS[name], columns, result)
    if not np.allclose(result.gradient['logp'], want, atol=1e-5):
      apart.add(name)
  assert apart == {
    name
    for name in CLAIMED
    if family.OBJECTIVES[name].surrogate is not surrogates.reinforce
  }


def test_both_forms_of_the_sequence_ratio_agree():
  result, other = (
    family.plain()[f'sequence.{name}'] for name in ('gspo', 'gspo_token')
  )
  family.close(result.loss, other.loss, 'loss')
  family.close(result.gradient['logp'], other.gradient['logp'], 'gradient')


# Recipes that are the same by design, on default numbers or constant credit, or
# but for their rollouts.
ALIKE = {
  ('filters.live_groups', 'grpo.live_dapo'),
  ('grpo.grpo', 'grpo.swe_rl'),
  ('offpolicy.dis', 'offpolicy.glm5_agentic'),
  ('offpolicy.glm5_reasoning', 'offpolicy.mis'),
  ('resets.rrpo', 'resets.srpo'),
  ('sequence.gspo', 'sequence.gspo_token'),
  ('supervised.actobs', 'terms.imitation'),
}


def test_no_other_two_recipes_are_alike():
  # So what sets a recipe apart is felt on these batches.
  gradients = {
    name: np.concatenate(
      [
        leaf.reshape(-1)
        for stack in batches.STACKS
        for leaf in jax.tree.leaves(family.plain(stack)[name].gradient)
      ]
    )
    for name in family.RECIPES
  }
  alike = {
    (a, b)
    for a, b in itertools.combinations(sorted(gradients), 2)
    if np.allclose(gradients[a], gradients[b], atol=1e-6)
  }
  assert alike == ALIKE


def test_clips_and_caps_bind_somewhere():
  for name, result in family.plain().items():
    for metric in ('policy/clip_fraction', 'policy/capped'):
      assert np.any(result.metrics.get(metric, 1)), name


# How it is run.


@pytest.mark.parametrize('name', family.METHODS)
def test_compiled_and_mapped_it_is_what_it_is_step_by_step(name):
  columns = batches.batch(batches.some()[1])
  got = jax.tree.map(lambda x: x[1], family.plain()[name])
  want = family.result(family.METHODS[name], columns)
  for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
    family.close(a, b, name, atol=1e-5)


def test_only_the_policys_columns_carry_a_gradient():
  columns = batches.batch(batches.some()[0])
  frozen = [n for n in batches.FLOATS if n not in batches.POLICY]

  def loss(others, method):
    read = {**columns, **others}
    credits = method.credit(read)
    return method.loss(read, credits, method.weigh(read, credits))[0]

  @jax.jit
  def gradients(others):
    return {n: jax.grad(loss)(others, m) for n, m in family.METHODS.items()}

  got = gradients({name: columns[name] for name in frozen})
  assert not any(np.any(leaf) for leaf in jax.tree.leaves(got))


@pytest.mark.parametrize('name', family.METHODS)
def test_a_method_reads_only_what_it_says(name):
  method, columns = family.METHODS[name], batches.batch(batches.some()[0])
  observed = {'mask', 'rewards', 'rollout_logp', 'seq', 'group', 'turn'}
  read = {n: columns[n] for n in observed | method.needs | {'logp'}}

  def run(read):
    scored = {n: x for n, x in read.items() if n not in batches.POLICY}
    credits = method.credit(scored)
    return method.loss(read, credits, method.weigh(scored, credits))

  loss, metrics = jax.eval_shape(run, read)
  assert loss.shape == () and metrics['loss/total'].shape == ()
  for missing in method.needs:
    without = {n: x for n, x in read.items() if n != missing}
    with pytest.raises(KeyError, match=missing):
      jax.eval_shape(run, without)
