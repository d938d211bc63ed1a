"""Credit from the likelihood of an answer: literal numbers and expectations."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worked

from arl import levels
from arl.kernels import aggregations, likelihoods

KERNELS = (likelihoods.garl, likelihoods.paft)
# Two tokens of the sample, one that another wrote, two of the answer.
MASK = (True, True, False, True, True)
ANSWER = (False, False, False, True, True)


def _columns(weights, groups=None, fill=jnp.nan):
  """Sequences whose answers have the likelihoods `weights`."""
  rows = len(weights)
  log_w = jnp.log(jnp.asarray(weights, jnp.float32))[:, None]
  shares = jnp.asarray([[-1.0, -0.5, 0, 0.25, 0.75]])
  answer = jnp.broadcast_to(jnp.asarray(ANSWER), (rows, 5))
  mask = jnp.broadcast_to(jnp.asarray(MASK), (rows, 5))
  old_logp = jnp.where(answer, shares * log_w, shares)
  return {
    'old_logp': jnp.where(mask, old_logp, fill),
    'mask': mask,
    'seq': worked.sequences(rows, 5),
    'group': worked.level(groups or [0] * rows, 5),
    'answer': answer,
  }


def _per_sequence(sample, answer):
  columns = [[s, s, 0, a, a] for s, a in zip(sample, answer)]
  return np.asarray(columns, np.float32)


def test_loss_by_hand():
  log_p = jnp.log(jnp.float32(0.2))
  for q, want in ((0.75, 1.325039), (0, 0.8), (1, 1.609438)):
    got = likelihoods.tsallis_loss(log_p, q=q)
    np.testing.assert_allclose(got, want, rtol=1e-6)
  slope = jax.grad(lambda p: likelihoods.tsallis_loss(jnp.log(p), q=0.75))
  np.testing.assert_allclose(slope(0.2), -3.343702, rtol=1e-6)


def test_garl_by_hand():
  got = jax.jit(likelihoods.garl)(**_columns([0.5, 0.1, 0.05]))
  sample = 3 * np.asarray([0.446091, -0.183685, -0.262407])
  answer = 3.148879 * np.asarray([0.5, 0.1, 0.05])
  np.testing.assert_allclose(got, _per_sequence(sample, answer), atol=3e-6)


def test_paft_by_hand():
  got = jax.jit(likelihoods.paft)(**_columns([0.5, 0.1, 0.05]))
  chance = np.asarray([0.769231, 0.153846, 0.076923])
  want = 3 * chance * 0.682257
  np.testing.assert_allclose(got, _per_sequence(want, want), atol=3e-6)


def test_mean_over_sequences_is_the_mean_over_samples():
  columns = _columns([0.5, 0.1, 0.05], fill=0)
  advantage = likelihoods.garl(**columns)
  weights = aggregations.sequence_sum(columns['mask'], columns['seq'])
  want = [0.446091, -0.183685, -0.262407]
  np.testing.assert_allclose((weights * advantage)[:, 0], want, atol=1e-6)


@pytest.mark.parametrize('kernel', KERNELS)
@pytest.mark.parametrize('q', [0.0, 0.5, 1.0])
def test_a_sample_alone_has_no_baseline(kernel, q):
  got = kernel(**_columns([0.5]), q=q)
  want = [0.5 ** (1 - q)]
  np.testing.assert_allclose(got, _per_sequence(want, want), rtol=1e-6)


def test_equal_likelihoods_leave_the_answer_alone():
  got = likelihoods.garl(**_columns([0.3] * 7))
  np.testing.assert_array_equal(got[:, :2], np.zeros((7, 2)))
  np.testing.assert_allclose(got[:, 3], 0.3**0.25, rtol=1e-6)


@pytest.mark.parametrize('kernel', KERNELS)
def test_groups_do_not_see_each_other(kernel):
  got = kernel(**_columns([0.5, 0.2, 0.1, 0.05], [0, 1, 0, 0]))
  want = kernel(**_columns([0.5, 0.1, 0.05]))
  np.testing.assert_allclose(got[jnp.asarray([0, 2, 3])], want, rtol=1e-5)
  np.testing.assert_allclose(got[1:2], kernel(**_columns([0.2])), rtol=1e-5)


@pytest.mark.parametrize('kernel', KERNELS)
def test_an_answer_too_unlikely_for_a_float_is_skipped(kernel):
  columns = _columns([0.5, 0.1, 1.0, 1.0], [0, 0, 1, 1])
  hopeless = jnp.asarray([[False], [False], [True], [True]]) & columns['answer']
  columns['old_logp'] = jnp.where(hopeless, -60.0, columns['old_logp'])
  got = kernel(**columns)
  assert np.all(np.asarray(got[:2, 3]) > 0)
  np.testing.assert_array_equal(got[2:], np.zeros((2, 5)))
  # One hopeless answer in a group is not the mean.
  one_group = {**columns, 'group': worked.one_group(4, 5)}
  got = kernel(**one_group)
  assert np.all(np.isfinite(got)) and np.all(got[:2, 3] > 0)
  np.testing.assert_array_equal(got[2:, 3:], np.zeros((2, 2)))


@pytest.mark.parametrize('kernel', KERNELS)
def test_a_sequence_without_an_answer_does_not_count(kernel):
  columns = _columns([0.5, 0.1, 0.05, 0.9])
  columns['answer'] = columns['answer'].at[3].set(False)
  got = kernel(**columns)
  want = kernel(**_columns([0.5, 0.1, 0.05]))
  np.testing.assert_allclose(got[:3], want, rtol=1e-5)
  np.testing.assert_array_equal(got[3], np.zeros(5))


@pytest.mark.parametrize('kernel', KERNELS)
def test_packed_into_one_row(kernel):
  columns = _columns([0.5, 0.1, 0.05])
  packed = {
    name: levels.Level(x.ids.reshape(1, -1), x.num)
    if isinstance(x, levels.Level)
    else x.reshape(1, -1)
    for name, x in columns.items()
  }
  want = kernel(**columns).reshape(1, -1)
  np.testing.assert_allclose(kernel(**packed), want, rtol=1e-6)


@pytest.mark.parametrize('kernel', KERNELS)
def test_no_gradient_passes(kernel):
  columns = _columns([0.5, 0.1, 0.1])

  def total(old_logp):
    return jnp.sum(kernel(**{**columns, 'old_logp': old_logp}))

  got = jax.grad(total)(columns['old_logp'])
  np.testing.assert_array_equal(got, np.zeros((3, 5)))


def _logs(parameters):
  """log pi(z) and log pi(y* | z) of two samples z."""
  latent, answer = parameters
  return jax.nn.log_softmax(latent), jax.nn.log_sigmoid(answer)


def _surrogate(kernel, parameters, draw):
  """The surrogate of M sequences of two tokens: z, then y*."""
  latent, answer = _logs(parameters)
  chosen = jnp.asarray(draw)
  logp = jnp.stack([latent[chosen], answer[chosen]], axis=1)
  rows = len(draw)
  credit = kernel(
    jax.lax.stop_gradient(logp),
    jnp.ones((rows, 2), bool),
    worked.sequences(rows, 2),
    worked.one_group(rows, 2),
    jnp.broadcast_to(jnp.asarray([False, True]), (rows, 2)),
  )
  return jnp.sum(credit * logp) / rows


@pytest.mark.parametrize('kernel', KERNELS)
@pytest.mark.parametrize('samples', [1, 3])
def test_without_amplification_the_expected_gradient_is_that_of_the_likelihood(
  kernel, samples
):
  parameters = jnp.asarray([[0.4, -0.3], [0.7, -1.1]])
  bound = functools.partial(kernel, q=0.0)

  def likelihood(parameters):
    return jnp.sum(jnp.exp(sum(_logs(parameters))))

  expected = np.zeros((2, 2))
  chance = np.exp(_logs(parameters)[0])
  for draw in itertools.product(range(2), repeat=samples):
    gradient = jax.grad(lambda p, d=draw: _surrogate(bound, p, d))(parameters)
    expected += np.prod(chance[list(draw)]) * np.asarray(gradient)
  want = jax.grad(likelihood)(parameters)
  np.testing.assert_allclose(expected, want, atol=1e-6)
