"""Value losses: literal numbers and the gradient where branches meet."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from arl.kernels import critics

CLIP = functools.partial(critics.value_clip, clip=0.2)


def test_by_hand():
  got = jax.jit(CLIP)(
    jnp.asarray([0.5, 0.9]), jnp.asarray([0.2, 0.8]), jnp.asarray([1.0, 0.0])
  )
  np.testing.assert_allclose(got, [0.18, 0.405], rtol=1e-6)
  np.testing.assert_allclose(jnp.mean(got), 0.2925, rtol=1e-6)


def _slope(value, old_value, returns):
  return float(jax.grad(CLIP)(*map(jnp.float32, (value, old_value, returns))))


def test_gradient_ends_where_the_clipped_error_is_larger():
  np.testing.assert_allclose(_slope(0.9, 0.8, 0.0), 0.9, rtol=1e-6)
  assert _slope(0.5, 0.2, 1.0) == 0.0


def test_a_tie_keeps_the_whole_gradient():
  np.testing.assert_allclose(_slope(0.3, 0.3, 1.0), -0.7, rtol=1e-6)
