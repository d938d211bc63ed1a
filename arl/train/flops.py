"""How much arithmetic an update is, and how fast this machine could do it.

Multiplications and additions of matrices count, each as one; a gradient step is
three forward passes, what is computed again for lack of memory is not counted.
"""

import math
import time
from typing import Any

import jax
import jax.numpy as jnp

from arl.models import sizes as sizes_lib

_SIDE, _TRIES = 2048, 5  # of the product that finds the peak


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


def of_update(size: sizes_lib.Sizes, columns: dict[str, Any]) -> float:
  """Of a gradient step over columns [B, T], padding left out.

  Each sequence counts by itself, whether or not it shares its beginning.
  """
  there = columns['segments'] > 0
  seen = jnp.where(there, columns['positions'] + 1, 0).astype(jnp.float32)
  count = lambda x: float(jnp.sum(x, dtype=jnp.float32))
  forward = (
    of_token(size) * count(there)
    + of_pair(size) * count(seen)
    + of_choice(size) * count(columns['mask'])
  )
  return 3 * forward


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
) -> dict[str, float]:
  """Metrics of a batch's updates: `speed/update_flops`, and its share of most.

  Args:
    size: of the model.
    columns: of the batch, all its updates.
    epochs: how often each was learnt from.
    seconds: that the updates took.
    most: what `peak` measured on all devices; 0 where it was not.
  """
  rate = of_update(size, columns) * epochs / max(seconds, 1e-9)
  made = {'speed/update_flops': rate}
  return made | ({'speed/update_peak': rate / most} if most else {})
