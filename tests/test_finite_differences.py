"""Automatic gradients of whole losses against finite differences, in float64.

What a loss stops the gradient of is recorded at the point of interest and held
there while the policy moves: that is what the gradient claims to be of.
"""

from unittest import mock

import batches
import family
import jax
import jax.numpy as jnp
import numpy as np
import pytest

STEP = 1e-6


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
    policy = {n: columns[n] + step * d for n, d in direction.items()}
    return _replayed(method, stopped, {**columns, **policy}, credits, weights)

  steps = jnp.asarray([-STEP, 0.0, STEP])
  below, held, above = jax.vmap(moved)(steps)
  slope = sum(jnp.vdot(gradient[n], direction[n]) for n in batches.POLICY)
  return loss, same, held, slope, (above - below) / (2 * STEP)


@pytest.mark.parametrize('names', family.modules(), ids=lambda names: names[0])
def test_gradients_are_slopes(names, x64):
  made = batches.some()
  columns = batches.join([batches.batch(m, dtype=np.float64) for m in made])
  rng = np.random.default_rng(0)
  direction = {n: rng.normal(size=columns[n].shape) for n in batches.POLICY}

  @jax.jit
  @jax.vmap
  def run(columns, direction):
    return {n: _along(family.METHODS[n], columns, direction) for n in names}

  slopes = jax.device_get(run(columns, direction))
  for name, (loss, same, held, slope, difference) in slopes.items():
    for value in (same, held):
      np.testing.assert_allclose(value, loss, rtol=1e-12, err_msg=name)
    family.close(difference, slope, name, atol=1e-8)
    assert np.all(slope != 0), name
