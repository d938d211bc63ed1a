"""Rotary position tables of the types that published decoders use."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from arl.models import sizes

# The fields of sizes.Rope that each type reads besides theta.
FIELDS = {
  'default': (),
  'linear': ('factor',),
  'llama3': (
    'factor',
    'original_max_position_embeddings',
    'low_freq_factor',
    'high_freq_factor',
  ),
  'yarn': (
    'factor',
    'original_max_position_embeddings',
    'beta_fast',
    'beta_slow',
    'attention_factor',
    'mscale',
    'mscale_all_dim',
    'truncate',
  ),
}


def frequencies(rope: sizes.Rope, head_dim: int) -> tuple[np.ndarray, float]:
  """Radians a token, float64 [head_dim / 2], and the factor of the tables.

  Sources: linear, Chen et al. arXiv:2306.15595; yarn, Peng et al.
  arXiv:2309.00071; llama3, the Llama 3.1 model card.

  Raises:
    ValueError: the type is unknown.
  """
  if rope.type not in FIELDS:
    raise ValueError(
      f'rope type {rope.type!r} is not implemented; use one of {list(FIELDS)}.'
    )
  base = rope.theta ** (-np.arange(0, head_dim, 2) / head_dim)
  if rope.type == 'linear':
    return base / rope.factor, 1.0
  if rope.type == 'llama3':
    return _llama3(rope, base), 1.0
  if rope.type == 'yarn':
    return _yarn(rope, base, head_dim), _yarn_attention(rope)
  return base, 1.0


def tables(
  rope: sizes.Rope, head_dim: int, positions: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """Cosines and sines, float32 [..., head_dim / 2], at int positions [...]."""
  radians, factor = frequencies(rope, head_dim)
  angles = positions.astype(jnp.float32)[..., None] * jnp.asarray(
    radians.reshape((1,) * positions.ndim + (-1,)), jnp.float32
  )
  return jnp.cos(angles) * factor, jnp.sin(angles) * factor


def rotate(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
  """Turns pairs (i, i + D/2) of x [..., H, D] by the angles of [..., D/2]."""
  cos, sin = cos[..., None, :], sin[..., None, :]
  first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
  turned = [first * cos - second * sin, second * cos + first * sin]
  return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def _llama3(rope: sizes.Rope, base: np.ndarray) -> np.ndarray:
  original = rope.original_max_position_embeddings
  low, high = rope.low_freq_factor, rope.high_freq_factor
  turns = original * base / (2 * math.pi)
  keep = np.clip((turns - low) / (high - low), 0.0, 1.0)
  return keep * base + (1 - keep) * base / rope.factor


def _yarn(rope: sizes.Rope, base: np.ndarray, head_dim: int) -> np.ndarray:
  original = rope.original_max_position_embeddings

  def dimension(turns):
    ratio = math.log(original / (turns * 2 * math.pi)) / math.log(rope.theta)
    return head_dim * ratio / 2

  first, last = dimension(rope.beta_fast), dimension(rope.beta_slow)
  if rope.truncate:
    first, last = math.floor(first), math.ceil(last)
  first, last = max(first, 0), min(last, head_dim - 1)
  width = (last - first) or 0.001  # as published, for a ramp without width
  stretch = np.clip((np.arange(head_dim // 2) - first) / width, 0.0, 1.0)
  return (1 - stretch) * base + stretch * base / rope.factor


def _yarn_attention(rope: sizes.Rope) -> float:
  if rope.attention_factor is not None:
    return rope.attention_factor

  def scale(weight):
    if rope.factor <= 1:
      return 1.0
    return 0.1 * weight * math.log(rope.factor) + 1.0

  if rope.mscale and rope.mscale_all_dim:
    return scale(rope.mscale) / scale(rope.mscale_all_dim)
  return scale(1.0)
