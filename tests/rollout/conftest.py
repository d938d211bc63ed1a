"""A small model whose next token is neither certain nor uniform."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl.models import sizes, transformer


@pytest.fixture(scope='session')
def tiny():
  """A model of 32 ids and parameters that make its logits uneven."""
  size = sizes.tiny(32)._replace(tied=False)  # tied, it would repeat itself
  model, rng = transformer.make(size), np.random.default_rng(0)
  shapes = jax.eval_shape(model.init, jax.random.key(0))
  draw = lambda x: jnp.asarray(0.3 * rng.normal(size=x.shape), x.dtype)
  return model, jax.tree.map(draw, shapes)


@pytest.fixture(scope='module', autouse=True)
def counted_anew(counted):
  """Each file counts compilations from nothing."""
  del counted
