"""The kernels that pool, written out for one sequence a row.

They compute what the kernels of arl do, with sums along rows in the place of
pooling over a partition: what is measured is the price of that generality.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import cases

PACKAGES = ('jax', 'jaxlib', 'numpy')


def _group_normalize(rewards, mask):
  """Rows without a token do not count; groups without a comparison give 0."""
  kept = jnp.where(mask, rewards, 0)
  groups = lambda x: x.reshape(-1, cases.GROUP)
  score, size = (groups(jnp.sum(x, axis=1)) for x in (kept, jnp.abs(kept)))
  here = groups(jnp.sum(mask, axis=1, dtype=float) > 0)
  n = jnp.sum(here, axis=1, keepdims=True, dtype=float)
  total = lambda x: jnp.sum(jnp.where(here, x, 0), axis=1, keepdims=True)
  top = lambda x: jnp.max(
    x, axis=1, keepdims=True, where=here, initial=-jnp.inf
  )
  centered = score - total(score) / jnp.maximum(n, 1)
  deviation = jnp.sqrt(total(jnp.square(centered)) / jnp.maximum(n - 1, 1))
  rounding = 4 * jnp.finfo(score.dtype).eps * top(size)
  varies = top(score) + top(-score) > rounding
  scaled = centered / (deviation + cases.DEVIATION_EPS)
  advantage = jnp.where(varies, scaled, 0).reshape(-1, 1)
  return {'column': jnp.where(mask, advantage, 0)}


def _sequence_ratio(logp, old_logp, mask, value):
  length = jnp.sum(mask, axis=1, keepdims=True, dtype=float)
  length = jnp.maximum(length, 1)

  def ratio(logp):
    total = jnp.sum(jnp.where(mask, logp - old_logp, 0), axis=1, keepdims=True)
    return jnp.broadcast_to(total / length, mask.shape)

  column, back = jax.vjp(ratio, logp)
  return {'column': column, 'gradient': back(value)[0]}


def _sequence_mean(mask):
  length = jnp.sum(mask, axis=1, keepdims=True, dtype=float)
  rows = jnp.sum(length > 0, dtype=float)
  share = 1 / jnp.maximum(length * rows, 1)
  return {'column': jnp.where(mask, share, 0)}


def _work(kernel, *names):
  jitted = jax.jit(kernel)

  def make(arrays):
    read = [jnp.asarray(arrays[name]) for name in names]
    mask = jnp.asarray(arrays['mask'] > 0)
    given = dict(zip(names, read), mask=mask)
    return cases.Work(
      lambda: jax.block_until_ready(jitted(**given)),
      lambda result: {name: np.asarray(x) for name, x in result.items()},
    )

  return make


def rows() -> dict[str, Callable]:
  """The same names as in `benchmarks.sides.arl`."""
  return {
    'group_normalize': _work(_group_normalize, 'rewards'),
    'sequence_ratio': _work(_sequence_ratio, 'logp', 'old_logp', 'value'),
    'sequence_mean': _work(_sequence_mean),
  }
