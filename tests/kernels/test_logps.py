"""Log-probs of tokens that a model rules out."""

import jax
import jax.numpy as jnp
import numpy as np

from arl.kernels import logps


def test_a_ruled_out_token_has_a_number_and_no_gradient():
  x = jnp.asarray([-jnp.inf, -2e4, logps.LOWEST, -3.0])
  np.testing.assert_array_equal(logps.finite(x), [-1e4, -1e4, -1e4, -3])
  grads = jax.grad(lambda x: jnp.sum(logps.finite(x)))(x)
  np.testing.assert_array_equal(grads, [0, 0, 1, 1])
