"""How much arithmetic an update is, and how fast this machine could do it.

Multiplications and additions of matrices count, each as one. A gradient step is
three forward passes where all is trained, and less where parameters are frozen;
what is computed again for lack of memory is not counted.
"""

import math
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from arl.models import sizes as sizes_lib
from arl.train import optimizers

_SIDE, _TRIES = 2048, 5  # of the product that finds the peak


class Trained(NamedTuple):
  """What a backward pass computes.

  Attributes:
    passed: the share of the layers that a gradient goes through.
    taken: the share of the layers' products whose matrix has a gradient.
    head: whether the head's matrix has one.
  """

  passed: float = 1.0
  taken: float = 1.0
  head: bool = True


WHOLE = Trained()


def trained(params: Any, size: sizes_lib.Sizes, frozen: str) -> Trained:
  """What is trained of a model.

  Args:
    params: of the model, adapters included.
    size: of it.
    frozen: a pattern for `optimizers.matching`; '' for none.
  """
  if not frozen:
    return WHOLE
  stays = jax.tree.leaves(optimizers.matching(params, frozen))
  leaves = jax.tree_util.tree_leaves_with_path(params)
  lowest, taken, whole = size.layers, 0.0, 0.0
  head = False
  for (path, x), still in zip(leaves, stays, strict=True):
    place, *rest = (str(key.key) for key in path)
    if place != 'layers':
      head |= not still and place == ('embed' if size.tied else 'head')
      lowest = lowest if still or place != 'embed' else 0
      continue
    lowest = lowest if still else min(lowest, int(rest[0]))
    if x.ndim > 1:
      whole += (weight := x.size * _used(size, x.ndim))
      taken += 0.0 if still else weight
  return Trained((size.layers - lowest) / size.layers, taken / whole, head)


def _used(size, sides):
  """The share of a layer's matrix that a token meets; experts have 3 sides."""
  if sides < 3 or size.mixture is None:
    return 1.0
  return size.mixture.chosen / size.mixture.experts


def of_token(size: sizes_lib.Sizes) -> float:
  """Of a forward pass, for each token, but for attention and the head."""
  width, heads = size.width, size.heads * size.head_dim
  attention = 2 * width * (2 * heads + 2 * size.kv_heads * size.head_dim)
  mixture, dense = size.mixture, 2 * 3 * width * size.mlp_width
  if mixture is None:
    return float(size.layers * (attention + dense))
  routed = 2 * width * (mixture.experts + 3 * mixture.width * mixture.chosen)
  plain = len(mixture.dense)
  return float(
    size.layers * attention + plain * dense + (size.layers - plain) * routed
  )


def of_pair(size: sizes_lib.Sizes) -> float:
  """Of attention, for each token and each one that it sees."""
  return 4.0 * size.layers * size.heads * size.head_dim


def of_choice(size: sizes_lib.Sizes) -> float:
  """Of the head, for each token whose distribution is read."""
  return 2.0 * size.width * size.vocab


def of_update(
  size: sizes_lib.Sizes,
  columns: dict[str, Any],
  trains: Trained = WHOLE,
) -> float:
  """Of a gradient step over columns [B, T], padding left out.

  Each sequence counts by itself, whether or not it shares its beginning.
  """
  there = columns['segments'] > 0
  seen = jnp.where(there, columns['positions'] + 1, 0).astype(jnp.float32)
  count = lambda x: float(jnp.sum(x, dtype=jnp.float32))
  return (
    of_token(size) * count(there) * (1 + trains.passed + trains.taken)
    + of_pair(size) * count(seen) * (1 + 2 * trains.passed)
    + of_choice(size) * count(columns['mask']) * (2 + trains.head)
  )


def peak(dtype: str = 'float32') -> float:
  """The most that a product of matrices reaches here a second, on one device.

  Takes about a second on two cores.
  """
  x = jnp.ones((_SIDE, _SIDE), dtype)
  product = jax.jit(jnp.matmul)
  product(x, x).block_until_ready()
  best = math.inf
  for _ in range(_TRIES):
    began = time.monotonic()
    product(x, x).block_until_ready()
    best = min(best, time.monotonic() - began)
  return 2 * _SIDE**3 / best


def rates(
  size: sizes_lib.Sizes,
  columns: dict[str, Any],
  epochs: int,
  seconds: float,
  most: float = 0.0,
  trains: Trained = WHOLE,
) -> dict[str, float]:
  """Metrics of a batch's updates: `speed/update_flops`, and its share of most.

  Args:
    size: of the model.
    columns: of the batch, all its updates.
    epochs: how often each was learnt from.
    seconds: that the updates took.
    most: what `peak` measured on all devices; 0 where it was not.
    trains: what of the model is trained.
  """
  rate = of_update(size, columns, trains) * epochs / max(seconds, 1e-9)
  made = {'speed/update_flops': rate}
  return made | ({'speed/update_peak': rate / most} if most else {})
