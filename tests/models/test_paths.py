"""Tokens of a tree see their own path: states are those of its sequences."""

import jax
import jax.numpy as jnp
import numpy as np

from arl.models import heads, sizes, transformer

# A trunk of two blocks, a branch from its second token and one from its fifth.
TOKENS = [[5, 3, 1, 4], [2, 6, 0, 0], [7, 7, 2, 0], [3, 0, 0, 0]]
POSITIONS = [[0, 1, 2, 3], [4, 5, -1, -1], [2, 3, 4, -1], [5, -1, -1, -1]]
BEFORE = [[0, 0, 1, 2], [3, 4, 0, 0], [1, 8, 9, 0], [4, 0, 0, 0]]
TRUNK = [0, 1, 2, 3, 4, 5]
PATHS = [TRUNK, TRUNK, [0, 1, 8, 9, 10, 0], [0, 1, 2, 3, 4, 12]]


def test_states_and_log_probs_are_those_of_the_sequences():
  model = transformer.make(sizes.tiny(8)._replace(tied=False))
  params = model.init(jax.random.key(0))
  params = jax.tree.map(lambda x: 5 * x, params)  # far from uniform
  tokens, positions = jnp.array(TOKENS), jnp.array(POSITIONS)
  there = positions >= 0

  @jax.jit
  def of_tree(params):
    hidden = model.apply(
      params, tokens, positions, there.astype(jnp.int32), None, jnp.array(PATHS)
    )
    made = heads.columns(
      model,
      params,
      hidden,
      tokens,
      {'logp'},
      chunk=3,
      where=there & (positions > 0),
      before=jnp.array(BEFORE),
    )
    return hidden.reshape(16, -1), made['logp'].reshape(16)

  @jax.jit
  def alone(params, ids):
    places = jnp.arange(ids.size, dtype=jnp.int32)[None]
    hidden = model.apply(params, ids[None], places, jnp.ones_like(places))
    made = heads.columns(model, params, hidden, ids[None], {'logp'})
    return hidden[0], made['logp'][0]

  states, logp = of_tree(params)
  assert jnp.isfinite(states).all()
  flat = tokens.reshape(-1)
  for path in (TRUNK, PATHS[2][:5], PATHS[3]):
    at = np.array(path)
    wanted, other = alone(params, flat[at])
    np.testing.assert_allclose(states[at], wanted, atol=1e-4)
    np.testing.assert_allclose(logp[at], other, atol=1e-4)
  assert (logp[np.array([0, 6, 7, 11, 13])] == 0).all()
