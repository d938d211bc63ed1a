"""Imitation of tokens that weigh differently."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worked

from arl.methods import compose, supervised, terms

OBSERVED = np.array(
  [[False, True, False], [True, False, False], [False] * 3, [False, True, True]]
)


def _run(part, **changes):
  """(loss, gradient in logp) of the worked sequences."""
  columns = {**worked.batch(), 'observed': jnp.asarray(OBSERVED), **changes}
  method = compose.method(part)
  credits = method.credit(columns)
  weights = method.weigh(columns, credits)

  def loss(logp):
    return method.loss({**columns, 'logp': logp}, credits, weights)[0]

  return jax.value_and_grad(loss)(columns['logp'])


def test_without_observations_it_is_imitation_exactly():
  mask = worked.batch()['mask'] & ~OBSERVED
  want = _run(terms.imitation(), mask=mask)
  got = _run(supervised.actobs(observation_coef=0.0))
  jax.tree.map(np.testing.assert_array_equal, got, want)


def test_with_observations_in_full_it_is_imitation_of_everything():
  want = _run(terms.imitation())
  got = _run(supervised.actobs())
  jax.tree.map(np.testing.assert_array_equal, got, want)


def test_a_coefficient_is_in_the_loss_and_in_its_divisor():
  logp, mask = worked.batch()['logp'], worked.batch()['mask']
  weights = np.where(mask, np.where(OBSERVED, 0.25, 1.0), 0.0)
  loss, gradient = _run(supervised.actobs(observation_coef=0.25))
  want = -np.sum(weights * np.where(mask, logp, 0)) / weights.sum()
  np.testing.assert_allclose(loss, want, rtol=1e-6)
  np.testing.assert_allclose(gradient, -weights / weights.sum(), rtol=1e-6)


def test_examples_weigh_as_their_records_say():
  example_weight = worked.per_sequence([1.0, 0.0, 2.0, 0.5])
  loss, gradient = _run(supervised.weighted(), example_weight=example_weight)
  weights = np.asarray(example_weight) / np.sum(example_weight)
  logp = np.where(weights > 0, worked.batch()['logp'], 0)
  np.testing.assert_allclose(loss, -np.sum(weights * logp), rtol=1e-6)
  np.testing.assert_allclose(gradient, -weights, rtol=1e-6)
  equal = _run(
    supervised.weighted(), example_weight=worked.per_sequence([1.0] * 4)
  )
  jax.tree.map(np.testing.assert_array_equal, equal, _run(terms.imitation()))


def test_a_coefficient_below_nothing_is_refused():
  with pytest.raises(ValueError, match='observation_coef is -1'):
    compose.method(supervised.actobs(observation_coef=-1))
