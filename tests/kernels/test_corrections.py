"""Corrections: literal factors and losses, what is kept, no gradient."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worked

from arl import levels
from arl.kernels import corrections, surrogates

GARBAGE = 1e9
LOGP = worked.column(worked.LOGP, GARBAGE)
OLD = worked.column(worked.OLD_LOGP, jnp.nan)
ROLLOUT = worked.column(worked.ROLLOUT_LOGP, -GARBAGE)
ENTROPY = worked.column(worked.ENTROPY, jnp.nan)
MASK, SEQ = worked.mask(), worked.sequences()
ADVANTAGE = worked.per_sequence(worked.ADVANTAGE, jnp.nan)
COLUMNS = {
  'logp': LOGP,
  'old_logp': OLD,
  'rollout_logp': ROLLOUT,
  'rollout_entropy': ENTROPY,
  'advantage': ADVANTAGE,
  'mask': MASK,
  'seq': SEQ,
}
RHO = [
  [1.0, 0.904837, 1.221403],
  [2.459603, 1.0],
  [0.367879],
  [0.980199, 1.051271, 1.0],
]
MEANS = (1.033895, 1.568312, 0.367879, 1.010050)
SHARES = [
  [0.461538, 1.384615, 1.153846],
  [1.6, 0.4],
  [1.0],
  [0.176471, 1.058824, 1.764706],
]
MASKED = [RHO[0], [0.0, 1.0], [0.0], RHO[3]]
TWO_LEVEL = [
  [1.033895, 0.935507, 1.262802],
  [3.136624, 1.568312],
  [0.25],
  [0.990050, 1.061837, 1.010050],
]
TRUSTED = [[1, 0, 0], [0, 1], [0], [1, 0, 0]]
KERNELS = {
  'importance': (corrections.importance, RHO),
  'truncated': (corrections.truncated, [RHO[0], [2.0, 1.0], *RHO[2:]]),
  'truncated_sequence': (
    corrections.truncated_sequence,
    [[1.105171] * 3, [2.0] * 2, [0.367879], [1.030455] * 3],
  ),
  'masked': (corrections.masked, MASKED),
  'masked_by_product': (
    corrections.masked_by_product,
    [RHO[0], [0, 0], [0], RHO[3]],
  ),
  'masked_by_mean': (
    corrections.masked_by_mean,
    [RHO[0], RHO[1], [0], RHO[3]],
  ),
  'masked_by_largest': (
    corrections.masked_by_largest,
    [RHO[0], [0, 0], [0], RHO[3]],
  ),
  'two_level': (corrections.two_level, TWO_LEVEL),
  'drop_stale': (
    functools.partial(corrections.drop_stale, kappa=0.44),
    [[1] * 3, [0] * 2, [0], [1] * 3],
  ),
  'sequence_mask': (
    functools.partial(corrections.sequence_mask, delta=0.1),
    [[1] * 3, [1] * 2, [0], [1] * 3],
  ),
  'entropy_trust': (
    functools.partial(corrections.entropy_trust, tau=0.1),
    TRUSTED,
  ),
  'moved_share': (corrections.moved_share, SHARES),
}


def _call(kernel, columns):
  function = getattr(kernel, 'func', kernel)
  names = function.__code__.co_varnames[: function.__code__.co_argcount]
  return kernel(**{name: columns[name] for name in names})


@pytest.mark.parametrize('name', KERNELS)
def test_worked_factors_with_garbage_off_the_mask(name):
  kernel, want = KERNELS[name]
  got = jax.jit(lambda columns: _call(kernel, columns))(COLUMNS)
  want = worked.column(want)
  np.testing.assert_allclose(got[MASK], want[MASK], atol=3e-6)


@pytest.mark.parametrize('name', KERNELS)
def test_no_gradient(name):
  floats = {n: jnp.where(MASK, COLUMNS[n], 0) for n in list(COLUMNS)[:5]}

  def loss(floats):
    return jnp.sum(_call(KERNELS[name][0], {**COLUMNS, **floats}))

  for leaf in jax.tree.leaves(jax.grad(loss)(floats)):
    np.testing.assert_array_equal(leaf, np.zeros((4, 3)))


@pytest.mark.parametrize('name', KERNELS)
def test_equal_policies_are_not_corrected(name):
  equal = dict.fromkeys(('logp', 'old_logp', 'rollout_logp'), OLD)
  got = _call(KERNELS[name][0], {**COLUMNS, **equal})
  np.testing.assert_allclose(got[MASK], np.ones(9), rtol=1e-6)


@pytest.mark.parametrize('gap', [-1e9, -30.0, 30.0, 1e9])
@pytest.mark.parametrize('name', KERNELS)
def test_distant_policies_are_finite(name, gap):
  far = {'old_logp': LOGP + gap, 'rollout_logp': LOGP - gap}
  got = _call(KERNELS[name][0], {**COLUMNS, **far})
  assert np.all(np.isfinite(got[MASK]))


@pytest.mark.parametrize('name', KERNELS)
def test_packed_as_padded(name):
  def pack(x):
    """Rows of 3 and 2, then of 1 and 3, with a gap in front of each second."""
    rows = ((x[0], x[1, :2]), (x[2, :1], x[3]))
    parts = [jnp.concatenate([a, x[1, 2:], b]) for a, b in rows]
    return jnp.stack([parts[0], jnp.pad(parts[1], (0, 1), mode='edge')])

  packed = {n: pack(x) for n, x in COLUMNS.items() if n != 'seq'}
  packed['mask'] = packed['mask'].at[1, -1].set(False)
  packed['seq'] = levels.Level(pack(SEQ.ids), 4)
  got = _call(KERNELS[name][0], packed)[packed['mask']]
  want = _call(KERNELS[name][0], COLUMNS)[MASK]
  np.testing.assert_allclose(got, want, rtol=1e-6)


def _corrected(kernel, ratio_to):
  """The token mean of the clipped loss with a factor."""
  objective = surrogates.clip(LOGP - ratio_to, ADVANTAGE, low=0.2, high=0.2)
  return -jnp.sum(jnp.where(MASK, objective * _call(kernel, COLUMNS), 0)) / 9


@pytest.mark.parametrize(
  'name, want',
  [
    ('truncated', -0.278049),
    ('masked', -0.498895),
    ('importance', -0.235102),
    ('moved_share', -0.232902),
  ],
)
def test_worked_losses(name, want):
  got = _corrected(KERNELS[name][0], OLD)
  np.testing.assert_allclose(got, want, atol=1e-6)


def test_worked_loss_in_the_trust_region():
  got = _corrected(KERNELS['entropy_trust'][0], ROLLOUT)
  np.testing.assert_allclose(got, -0.134345, atol=1e-6)


def test_the_trust_region_at_its_default():
  gap = jnp.sqrt(jnp.asarray([0.5, 0.5])) * jnp.asarray([0.99, 1.01])
  got = corrections.entropy_trust(gap, jnp.zeros(2), jnp.full(2, 0.49))
  np.testing.assert_array_equal(got, [1, 0])


def test_a_bad_sequence_is_masked_only_once_it_is_left_behind():
  old = jnp.zeros((4, 1))
  logp = jnp.asarray([[-0.51], [-0.49], [-0.51], [0.51]])
  advantage = jnp.asarray([[-1.0], [-1.0], [1.0], [-1.0]])
  seq = worked.sequences(4, 1)
  got = corrections.sequence_mask(logp, old, advantage, old == 0, seq)
  np.testing.assert_array_equal(got, [[0], [1], [1], [1]])


def test_the_largest_decides_on_either_side():
  old = jnp.log(jnp.asarray([[1.0, 2.1], [1.0, 0.4], [0.6, 1.9]]))
  mask, seq = jnp.ones((3, 2), bool), worked.sequences(3, 2)
  got = corrections.masked_by_largest(old, jnp.zeros((3, 2)), mask, seq)
  np.testing.assert_allclose(got, [[0, 0], [0, 0], [0.6, 1.9]], rtol=1e-6)


def test_self_normalized_factors_have_mean_one():
  got = jax.jit(corrections.self_normalized)(OLD, ROLLOUT, MASK)
  want = worked.column(KERNELS['truncated'][1]) / (9.525590 / 9)
  np.testing.assert_allclose(got[MASK], want[MASK], atol=1e-6)
  np.testing.assert_allclose(jnp.mean(got[MASK]), 1, rtol=1e-6)


def test_self_normalized_sequences_count_once_each():
  got = jax.jit(corrections.self_normalized_sequence)(OLD, ROLLOUT, MASK, SEQ)
  want = np.asarray([1.105171, 2.0, 0.367879, 1.030455])
  want = worked.per_sequence(want / want.mean())
  np.testing.assert_allclose(got[MASK], want[MASK], atol=1e-6)


def test_nothing_to_normalize():
  empty = jnp.zeros_like(MASK)
  for got in (
    corrections.self_normalized(LOGP, LOGP, empty),
    corrections.self_normalized_sequence(LOGP, LOGP, empty, SEQ),
  ):
    assert np.all(np.isfinite(got))


def test_a_credited_factor_is_what_it_was():
  factor = jnp.asarray([[0.5, 2.0]])
  np.testing.assert_array_equal(corrections.credited(factor), factor)
  slope = jax.grad(lambda x: jnp.sum(corrections.credited(x)))(factor)
  np.testing.assert_array_equal(slope, [[0, 0]])
