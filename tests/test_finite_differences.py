"""Automatic gradients of whole losses against finite differences, in float64.

What a loss stops the gradient of is recorded at the point of interest and held
there while the policy moves: that is what the gradient claims to be of.
"""

from unittest import mock

import family
import jax
import jax.numpy as jnp
import numpy as np
import pytest

STEP = 1e-6
NAMES = (*family.RECIPES, 'dual_clip/token', 'clipped_weight/sequence_token')


def _recorded(method, *arguments):
  """A loss, and everything that it stopped the gradient of, in order."""
  stop, stopped = jax.lax.stop_gradient, []

  def record(x):
    stopped.append(stop(x))
    return stopped[-1]

  with mock.patch.object(jax.lax, 'stop_gradient', record):
    return method.loss(*arguments)[0], stopped


def _replayed(method, stopped, *arguments):
  """The loss with what it stopped held at earlier values."""
  held = iter(stopped)
  with mock.patch.object(jax.lax, 'stop_gradient', lambda x: next(held)):
    return method.loss(*arguments)[0]


def _along(method, columns, direction):
  """The slope along a direction: of the gradient, and by differences."""
  credits = method.credit(columns)
  weights = method.weigh(columns, credits)
  (loss, _), gradient = family.loss_and_gradient(
    method, columns, credits, weights
  )
  same, stopped = _recorded(method, columns, credits, weights)

  def moved(step):
    policy = {n: columns[n] + step * direction[n] for n in family.POLICY}
    arguments = {**columns, **policy}, credits, weights
    return _replayed(method, stopped, *arguments)

  slope = sum(jnp.vdot(gradient[n], direction[n]) for n in family.POLICY)
  difference = (moved(STEP) - moved(-STEP)) / (2 * STEP)
  return loss, same, moved(0.0), slope, difference


@jax.jit
def _slopes(columns, direction):
  return {n: _along(family.METHODS[n], columns, direction) for n in NAMES}


@pytest.mark.parametrize('seed', range(3))
def test_gradients_are_slopes(seed, x64):
  columns = family.batch(family.sequences(seed), dtype=np.float64)
  keys = jax.random.split(jax.random.key(seed), len(family.POLICY))
  shape = (family.ROWS, family.WIDTH)
  direction = {
    name: jax.random.normal(key, shape)
    for name, key in zip(family.POLICY, keys)
  }
  slopes = jax.device_get(_slopes(columns, direction))
  for name, (loss, same, held, slope, difference) in slopes.items():
    np.testing.assert_allclose([same, held], loss, rtol=1e-12, err_msg=name)
    family.close(difference, slope, name, atol=1e-8)
    assert slope != 0, name
