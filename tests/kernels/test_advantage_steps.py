"""Advantages made from advantages, and from a greedy response."""

import functools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worked

from arl.kernels import advantages

BASE = functools.partial(advantages.group_normalize, eps=1e-8)
LEVELS = {'seq': worked.sequences(), 'group': worked.one_group()}


def _columns(rewards, fill=jnp.nan):
  """Columns of the worked sequences with other rewards."""
  batch = worked.batch(fill)
  return {
    'rewards': worked.at_end(rewards, fill),
    'mask': batch['mask'],
    'old_logp': batch['old_logp'],
    **LEVELS,
  }


def _rare(rewards, **settings):
  columns = _columns(rewards)
  observed = {n: x for n, x in columns.items() if n != 'old_logp'}
  base = BASE(**observed)
  kernel = functools.partial(advantages.rare_correct, **settings)
  return jax.jit(kernel)(base, **columns), base


def test_rare_correct_answers_by_hand():
  got, base = _rare((1.0, 1.0, 0.0, 1.0))
  want = worked.per_sequence((0.5, 0.5, -1.5, 0.5))
  np.testing.assert_allclose(base, want, atol=1e-6)
  want = worked.per_sequence((0.515514, 0.493012, -1.5, 0.491474))
  np.testing.assert_allclose(got, want, atol=1e-6)


def test_rare_correct_keeps_the_mass_of_the_correct():
  got, _ = _rare((1.0, 1.0, 0.0, 1.0), tau=1.0)
  per_sequence = got[:, 0]
  assert per_sequence[0] > per_sequence[1] > per_sequence[3] > 0
  np.testing.assert_allclose(jnp.sum(per_sequence), 0, atol=1e-6)


@pytest.mark.parametrize(
  'rewards',
  [(1.0, 0, 0, 0), (0.0, 0, 0, 0), (1.0, 1, 1, 1), (-1.0, -1, 0, -1)],
)
def test_rare_correct_leaves_groups_without_two_correct_and_a_wrong(rewards):
  got, base = _rare(rewards)
  np.testing.assert_array_equal(got, base)


def test_rare_correct_with_an_impossible_answer_stays_finite():
  columns = _columns((1.0, 1.0, 0.0, 0.0))
  columns['old_logp'] = columns['old_logp'].at[0].set(-1e4)
  base = worked.per_sequence((1.0, 1.0, -1.0, -1.0))
  got = advantages.rare_correct(base, **columns)
  want = worked.per_sequence((1.2, 0.8, -1.0, -1.0))
  np.testing.assert_allclose(got, want, atol=1e-5)


def test_rare_correct_is_of_each_group_and_of_its_order():
  columns = _columns((1.0, 1.0, 1.0, 1.0))
  columns['group'] = worked.level([0, 1, 0, 1], 3)
  base = worked.per_sequence((1.0, 1.0, 1.0, 1.0))
  got = advantages.rare_correct(base, **columns)[:, 0]
  # Mean log-probs -7/6 and -1.3; -0.95 and -2.8/3.
  for first, second, gap in ((0, 2, 1.3 - 7 / 6), (1, 3, 2.8 / 3 - 0.95)):
    share = 1 / (1 + np.exp(gap))  # of 1/q, for the first
    want = [0.8 + 0.4 * share, 0.8 + 0.4 * (1 - share)]
    np.testing.assert_allclose(got[jnp.asarray([first, second])], want, 1e-5)


def _entropy_weighted(advantage, entropy, fill=jnp.nan, **settings):
  kernel = functools.partial(advantages.entropy_weighted, **settings)
  return jax.jit(kernel)(
    worked.per_sequence(advantage, fill),
    worked.column(entropy, fill),
    worked.mask(),
    worked.sequences(),
  )


def test_entropy_weights_by_hand():
  want = [
    [0.989796, 0.530612, 1.479592],
    [0.75, 1.25],
    [1.0],
    [1.4, 0.95, 0.65],
  ]
  got = _entropy_weighted((1.0,) * 4, worked.ENTROPY)
  np.testing.assert_allclose(got, worked.column(want), atol=1e-6)
  got = _entropy_weighted((-1.0,) * 4, worked.ENTROPY)
  np.testing.assert_allclose(got, -worked.column(want), atol=1e-6)


def test_each_sign_has_its_strength():
  got = _entropy_weighted(
    (1.0, -1.0, 0.0, 1.0), worked.ENTROPY, positive=1.0, negative=0.0
  )
  want = [[0.979592, 0.061224, 1.959184], [-1, -1], [0.0], [1.8, 0.9, 0.3]]
  np.testing.assert_allclose(got, worked.column(want), atol=1e-6)


def test_entropy_weights_stay_between_0_and_2():
  entropy = ((0.0, 0.0, 9.0), (1.0, 1.0), (2.0,), (0.0, 0.0, 0.0))
  got = _entropy_weighted((1.0,) * 4, entropy, positive=1.0)
  want = [[0, 0, 2], [1, 1], [1], [1, 1, 1]]
  np.testing.assert_allclose(got, worked.column(want), atol=1e-6)


def test_greedy_baseline_by_hand():
  mask = worked.mask()
  got = jax.jit(advantages.greedy_baseline)(
    worked.at_end(worked.REWARDS, jnp.nan),
    jnp.where(mask, 0.5, jnp.nan),
    mask,
    worked.sequences(),
  )
  want = worked.per_sequence((0.5, -0.3, -0.5, 0.1))
  np.testing.assert_allclose(got, want, atol=1e-6)


@hypothesis.settings(max_examples=20, deadline=None)
@hypothesis.given(
  rewards=st.lists(st.integers(-3, 3), min_size=4, max_size=4),
  groups=st.lists(st.integers(0, 1), min_size=4, max_size=4),
)
def test_center_and_scale_are_normalize(rewards, groups):
  columns = {**_columns(rewards), 'group': worked.level(groups, 3, 2)}
  del columns['old_logp']
  center = advantages.group_center(**columns)
  got = advantages.group_scale(center, **columns)
  want = advantages.group_normalize(**columns)
  np.testing.assert_allclose(got, want, atol=1e-6)


def test_the_best_over_the_deviation():
  columns = _columns(worked.REWARDS)
  del columns['old_logp']
  best = advantages.best_of_group(**columns)
  got = advantages.group_scale(best, **columns)
  want = worked.per_sequence((0.4 / np.std(worked.REWARDS, ddof=1), 0, 0, 0))
  np.testing.assert_allclose(got, want, rtol=1e-5)


def test_no_gradient_passes():
  columns = _columns(worked.REWARDS)
  mask, seq = columns['mask'], columns['seq']
  observed = {n: x for n, x in columns.items() if n != 'old_logp'}

  def total(advantage, old_logp):
    made = (
      advantages.group_scale(advantage, **observed),
      advantages.rare_correct(advantage, **{**columns, 'old_logp': old_logp}),
      advantages.entropy_weighted(advantage, -old_logp, mask, seq),
      advantages.greedy_baseline(advantage, old_logp, mask, seq),
    )
    return sum(jnp.sum(each) for each in made)

  advantage = worked.per_sequence(worked.ADVANTAGE, jnp.nan)
  for got in jax.grad(total, (0, 1))(advantage, columns['old_logp']):
    np.testing.assert_array_equal(got, np.zeros((4, 3)))
