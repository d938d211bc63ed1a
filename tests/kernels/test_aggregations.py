"""Aggregations as weights: literal numbers, and the counts behind them."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import worked
from absl.testing import parameterized

from arl import levels
from arl.kernels import aggregations

CONSTANT = functools.partial(aggregations.constant, length=8.0)


def _weights(kernel, mask, seq):
  if kernel is aggregations.token_mean:
    return kernel(mask)
  return kernel(mask, seq)


class WeightsTest(chex.TestCase):
  """Each kernel, compiled and not."""

  @chex.variants(with_jit=True, without_jit=True)
  @parameterized.named_parameters(
    ('token_mean', aggregations.token_mean, 1.055556),
    ('sequence_mean', aggregations.sequence_mean, 1.108333),
    ('sequence_sum', aggregations.sequence_sum, 2.375000),
    ('constant', CONSTANT, 0.296875),
  )
  def test_worked_numbers(self, kernel, want):
    weights = self.variant(functools.partial(_weights, kernel))(
      worked.mask(), worked.sequences()
    )
    loss = -worked.column(worked.LOGP)
    np.testing.assert_allclose(jnp.sum(weights * loss), want, atol=1e-6)
    assert not np.any(weights[~worked.mask()])

  @parameterized.named_parameters(
    ('token_mean', aggregations.token_mean, [1 / 9] * 4),
    (
      'sequence_mean',
      aggregations.sequence_mean,
      [1 / 12, 1 / 8, 1 / 4, 1 / 12],
    ),
    ('sequence_sum', aggregations.sequence_sum, [1 / 4] * 4),
    ('constant', CONSTANT, [1 / 32] * 4),
  )
  def test_weight_of_a_token_by_row(self, kernel, want):
    weights = _weights(kernel, worked.mask(), worked.sequences())
    np.testing.assert_allclose(weights, worked.per_sequence(want), rtol=1e-6)

  @parameterized.named_parameters(
    ('token_mean', aggregations.token_mean),
    ('sequence_mean', aggregations.sequence_mean),
    ('sequence_sum', aggregations.sequence_sum),
    ('constant', CONSTANT),
  )
  def test_nothing_on_the_mask_weighs_nothing(self, kernel):
    nothing = jnp.zeros((4, 3), bool)
    weights = _weights(kernel, nothing, worked.sequences())
    np.testing.assert_array_equal(weights, np.zeros((4, 3)))


@jax.jit
def _all(mask, ids):
  level = levels.Level(ids, 4)
  kernels = (
    aggregations.token_mean,
    aggregations.sequence_mean,
    aggregations.sequence_sum,
    CONSTANT,
  )
  return [_weights(kernel, mask, level) for kernel in kernels]


def test_a_sequence_without_a_token_does_not_count():
  mask = worked.mask().at[2].set(False)
  _, mean, total, constant = _all(mask, worked.sequences().ids)
  np.testing.assert_allclose(mean[:2].sum(), 2 / 3, rtol=1e-6)
  np.testing.assert_allclose(total[0], [1 / 3] * 3, rtol=1e-6)
  np.testing.assert_allclose(constant[0], [1 / 24] * 3, rtol=1e-6)


def test_sequences_packed_into_a_row_count_one_by_one():
  mask = jnp.asarray([[True, True, True, False, True, True]])
  ids = jnp.asarray([[0, 0, 0, 3, 1, 2]])
  _, mean, total, _ = _all(mask, ids)
  third = 1 / 3
  np.testing.assert_allclose(
    mean, [[third / 3, third / 3, third / 3, 0, third, third]], rtol=1e-6
  )
  np.testing.assert_allclose(
    total, [[third, third, third, 0, third, third]], rtol=1e-6
  )


def test_pieces_of_an_update_share_one_denominator():
  # Two tokens of loss 3 and six of loss 1; three of 2 and nine of 1.
  for lengths, losses, want in (((2, 6), (3, 1), 1.5), ((3, 9), (2, 1), 1.25)):
    weights = aggregations.token_mean(worked.mask(lengths))
    loss = weights * worked.per_sequence(losses, lengths=lengths)
    assert float(loss[0].sum() + loss[1].sum()) == want
    halves = (lengths[1] + 1) // 2
    shards = loss[:, :halves].sum() + loss[:, halves:].sum()
    np.testing.assert_allclose(shards, want, rtol=1e-6)


def test_a_filtered_row_leaves_numerator_and_denominator():
  mask = worked.mask((3, 5)).at[1].set(False)
  loss = jnp.full((2, 5), 2.0)
  assert float(jnp.sum(aggregations.token_mean(mask) * loss)) == 2.0


def test_tokens_are_counted_in_integers_beyond_low_precision():
  weights = aggregations.token_mean(jnp.ones((1, 4099), bool))
  np.testing.assert_allclose(weights[0, 0], 1 / 4099, rtol=1e-6)


GROUP = levels.Level(jnp.asarray([[0], [0], [0], [2]]), 3)


def test_each_group_weighs_the_same():
  got = jax.jit(aggregations.group_mean)(
    worked.mask(), worked.sequences(), GROUP
  )
  want = worked.per_sequence([1 / 18, 1 / 12, 1 / 6, 1 / 6])
  np.testing.assert_allclose(got, want, rtol=1e-6)
  np.testing.assert_allclose(jnp.sum(got), 1, rtol=1e-6)


def test_a_group_without_a_token_does_not_count():
  mask = worked.mask().at[3].set(False)
  got = aggregations.group_mean(mask, worked.sequences(), GROUP)
  want = aggregations.sequence_mean(mask, worked.sequences())
  np.testing.assert_allclose(got, want, rtol=1e-6)
  nothing = jnp.zeros((4, 3), bool)
  got = aggregations.group_mean(nothing, worked.sequences(), GROUP)
  np.testing.assert_array_equal(got, np.zeros((4, 3)))


def test_groups_packed_into_rows():
  seq = levels.Level(jnp.asarray([[0, 0, 1], [2, 3, 3]]), 4)
  group = levels.Level(jnp.asarray([[0, 0, 0], [0, 1, 1]]), 2)
  got = aggregations.group_mean(jnp.ones((2, 3), bool), seq, group)
  sixth, quarter = 1 / 6, 1 / 4
  np.testing.assert_allclose(
    got,
    [[sixth / 2, sixth / 2, sixth], [sixth, quarter, quarter]],
    rtol=1e-6,
  )


def test_weighted_tokens():
  importance = worked.column(
    [[1.0, 2.0, 0.0], [1.0, 3.0], [0.5], [0.0, 0.0, 2.5]], fill=jnp.nan
  )
  got = jax.jit(aggregations.weighted)(worked.mask(), importance)
  np.testing.assert_allclose(got[0], [0.1, 0.2, 0], rtol=1e-6)
  np.testing.assert_allclose(jnp.sum(got), 1, rtol=1e-6)
  assert not np.any(got[~worked.mask()])
  even = aggregations.weighted(worked.mask(), jnp.full((4, 3), 0.7))
  np.testing.assert_allclose(
    even, aggregations.token_mean(worked.mask()), rtol=1e-6
  )


def test_no_importance_weighs_nothing():
  got = aggregations.weighted(worked.mask(), jnp.zeros((4, 3)))
  np.testing.assert_array_equal(got, np.zeros((4, 3)))
