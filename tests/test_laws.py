"""Laws that every method keeps, for each recipe and product of axes.

All methods run in one compiled function (`family.evaluate`), so a law costs
little; a new row in `family.RECIPES` is held to all of them. Laws of cutting an
update into pieces are in test_laws_pieces.py.
"""

import family
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl import levels
from arl.kernels import advantages

SEEDS = st.integers(0, 2**31 - 1)
few = hypothesis.settings(max_examples=15, deadline=None)


def _same(got, want, what):
  """Equal bit for bit, leaf by leaf."""
  for (path, a), b in zip(
    jax.tree_util.tree_leaves_with_path(got), jax.tree.leaves(want), strict=True
  ):
    np.testing.assert_array_equal(a, b, err_msg=f'{what} {path}')


def _on_policy(columns):
  return {**columns, 'old_logp': columns['logp']}


# 1. On policy, every surrogate under every ratio is the policy gradient.


@few
@hypothesis.given(seed=SEEDS)
def test_on_policy_all_are_the_policy_gradient(seed):
  columns = _on_policy(family.batch(family.sequences(seed)))
  results = family.evaluate(columns)
  for name in (*family.PRODUCTS, *family.PLAIN):
    result = results[name]
    advantage = result.credits['policy']['advantage']
    want = -result.weights['policy'] * advantage
    family.close(result.gradient['logp'], want, name)


def test_off_policy_a_sequences_ratio_is_not_a_tokens():
  results = family.evaluate(family.batch(family.sequences(0)))
  for surrogate in family.SURROGATES:
    token, pooled = (
      results[f'{surrogate}/{ratio}'].gradient['logp']
      for ratio in ('token', 'sequence')
    )
    same = np.allclose(token, pooled, atol=1e-4)
    assert same == (surrogate == 'reinforce'), surrogate


@few
@hypothesis.given(seed=SEEDS)
def test_both_forms_of_the_sequence_ratio_agree(seed):
  results = family.evaluate(family.batch(family.sequences(seed)))
  pairs = [('gspo', 'gspo_token')]
  pairs += [(f'{s}/sequence', f'{s}/sequence_token') for s in family.SURROGATES]
  for a, b in pairs:
    family.close(results[a].loss, results[b].loss, a)
    family.close(results[a].gradient['logp'], results[b].gradient['logp'], a)


# 2. Packing changes nothing.


@few
@hypothesis.given(seed=SEEDS)
def test_packing_changes_nothing(seed):
  made = family.sequences(seed)
  places = family.pack(made, seed)
  padded = family.evaluate(family.batch(made))
  packed = family.evaluate(family.batch(made, places))
  for name in family.METHODS:
    one, other = padded[name], packed[name]
    family.close(other.loss, one.loss, name)
    for metric, value in one.metrics.items():
      family.close(other.metrics[metric], value, f'{name} {metric}')
    for before, after in zip(
      jax.tree.leaves((one.gradient, one.credits, one.weights)),
      jax.tree.leaves((other.gradient, other.credits, other.weights)),
      strict=True,
    ):
      for sequence, old, new in zip(made, family.PADDED, places):
        here = before[family.tokens_at(sequence, old)]
        there = after[family.tokens_at(sequence, new)]
        family.close(there, here, name, atol=1e-5)


# 3. What lies off the mask gets no gradient and has no influence.


@few
@hypothesis.given(seed=SEEDS)
def test_off_the_mask_everything_is_zero(seed):
  columns = family.batch(family.sequences(seed))
  off = ~np.asarray(columns['mask'])
  for name, result in family.evaluate(columns).items():
    for tree in (result.gradient, result.credits, result.weights):
      for leaf in jax.tree.leaves(tree):
        assert not np.any(leaf[off]), name
    for leaf in jax.tree.leaves(result):
      assert np.all(np.isfinite(leaf)), name


def test_some_token_on_the_mask_gets_a_gradient():
  columns = family.batch(family.sequences(0))
  for name, result in family.evaluate(columns).items():
    assert np.any(result.gradient['logp']), name


@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf, 1e9])
@pytest.mark.parametrize('columns', [*family.FLOATS, 'all'])
def test_padding_full_of_anything_changes_nothing(columns, bad):
  clean = family.batch(family.sequences(2))
  spoiled = family.FLOATS if columns == 'all' else (columns,)
  dirty = {
    name: jnp.where(clean['mask'], clean[name], jnp.float32(bad))
    for name in spoiled
  }
  want = family.evaluate(clean)
  got = family.evaluate({**clean, **dirty})
  for name in family.METHODS:
    _same(got[name], want[name], name)


@pytest.mark.parametrize('bad', [0, 5, -3, 2**30])
def test_padding_may_carry_any_segment(bad):
  clean = family.batch(family.sequences(2))
  dirty = {
    name: levels.Level(
      jnp.where(clean['mask'], clean[name].ids, jnp.int32(bad)), family.ROWS
    )
    for name in ('seq', 'group', 'turn')
  }
  want = family.evaluate(clean)
  got = family.evaluate({**clean, **dirty})
  for name in family.METHODS:
    _same(got[name], want[name], name)


# 4. Baselines and weights.


@few
@hypothesis.given(seed=SEEDS, constant=st.sampled_from([-2.0, 0.5, 3.0]))
def test_a_constant_added_to_the_rewards_of_a_group_changes_nothing(
  seed, constant
):
  made = family.sequences(seed)
  before = family.evaluate(family.batch(made))
  for one in made:
    if one['group'] == 0 and np.any(one['mask']):
      one['rewards'][np.flatnonzero(one['mask'])[0]] += constant
  after = family.evaluate(family.batch(made))
  for name in family.OF_GROUPS:
    family.close(after[name].loss, before[name].loss, name, atol=1e-5)
    family.close(
      after[name].gradient['logp'],
      before[name].gradient['logp'],
      name,
      atol=1e-5,
    )


@few
@hypothesis.given(seed=SEEDS)
def test_weights_are_positive_on_the_mask_and_means_sum_to_one(seed):
  columns = family.batch(family.sequences(seed))
  mask = np.asarray(columns['mask'])
  sums = {'reinforce', 'rloo', 'dr_grpo'}
  for name, result in family.evaluate(columns).items():
    for term, weights in result.weights.items():
      assert np.all(np.asarray(weights)[mask] > 0), (name, term)
      if name not in sums:
        family.close(np.sum(weights), 1.0, f'{name} {term}')


# 5. Order and names do not matter.


@few
@hypothesis.given(seed=SEEDS)
def test_permuting_rows_permutes(seed):
  columns = family.batch(family.sequences(seed))
  order = np.random.default_rng(seed).permutation(family.ROWS)
  want = family.evaluate(columns)
  got = family.evaluate(jax.tree.map(lambda x: x[order], columns))
  for name in family.METHODS:
    family.close(got[name].loss, want[name].loss, name)
    for column in family.POLICY:
      permuted = want[name].gradient[column][order]
      family.close(got[name].gradient[column], permuted, name)
    for a, b in zip(
      jax.tree.leaves(got[name].credits),
      jax.tree.leaves(want[name].credits),
      strict=True,
    ):
      family.close(a, b[order], name, atol=1e-5)


@few
@hypothesis.given(seed=SEEDS)
def test_relabelling_segments_changes_nothing(seed):
  columns = family.batch(family.sequences(seed))
  rng = np.random.default_rng(seed)
  renamed = {}
  for name in ('seq', 'group', 'turn'):
    names = jnp.asarray(rng.permutation(family.ROWS).astype(np.int32))
    level = columns[name]
    renamed[name] = levels.Level(names[level.ids], level.num)
  want = family.evaluate(columns)
  got = family.evaluate({**columns, **renamed})
  for name in family.METHODS:
    _same(got[name], want[name], name)


# 6. Groups without a comparison.


@jax.jit
def _group_advantages(rewards, mask):
  """Every group baseline, for one group of sequences of one token."""
  rows = jnp.arange(len(rewards), dtype=jnp.int32)[:, None]
  seq = levels.Level(rows, len(rewards))
  group = levels.Level(jnp.zeros_like(rows), 1)
  kernels = (
    advantages.group_center,
    advantages.group_normalize,
    advantages.leave_one_out,
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


def test_equal_and_lonely_rewards_give_no_gradient():
  made = family.sequences(3)
  results = family.evaluate(family.batch(made))
  for name in family.OF_GROUPS:
    if name in ('grpo', 'penalized_dapo'):  # their KL tells sequences apart
      continue
    for row in (5, 6, 7):  # equal rewards, and a group of one
      assert np.any(made[row]['mask'])
      assert not np.any(results[name].gradient['logp'][row]), name
  assert not np.any(results['penalized_dapo'].gradient['logp'][7])


# 7. Nothing to train on.


def test_an_empty_mask_gives_no_loss_and_no_gradient():
  columns = family.batch(family.sequences(5))
  dirty = {
    name: jnp.full_like(columns[name], jnp.nan) for name in family.FLOATS
  }
  empty = jnp.zeros_like(columns['mask'])
  results = family.evaluate({**columns, **dirty, 'mask': empty})
  for name, result in results.items():
    for leaf in jax.tree.leaves(result):
      np.testing.assert_array_equal(leaf, np.zeros(leaf.shape), err_msg=name)
