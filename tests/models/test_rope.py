"""Rotary tables against formulas written again, one dimension at a time."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl.models import rope, sizes

HEAD_DIM, CONTEXT = 16, 4096
ROPES = {
  'default': sizes.Rope(10_000.0),
  'linear': sizes.Rope(10_000.0, 'linear', factor=4.0),
  'llama3': sizes.Rope(
    500_000.0,
    'llama3',
    factor=8.0,
    original_max_position_embeddings=512,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
  ),
  'yarn': sizes.Rope(
    1_000_000.0, 'yarn', factor=4.0, original_max_position_embeddings=1024
  ),
  'yarn, all set': sizes.Rope(
    10_000.0,
    'yarn',
    factor=4.0,
    original_max_position_embeddings=1024,
    beta_fast=16.0,
    beta_slow=2.0,
    mscale=1.0,
    mscale_all_dim=0.5,
    truncate=False,
  ),
}


def _wavelength_kept(settings, i):
  """How much of dimension i keeps its frequency, from 0 to 1."""
  wavelength = 2 * math.pi * settings.theta ** (2 * i / HEAD_DIM)
  original = settings.original_max_position_embeddings
  if settings.type == 'llama3':
    longest = original / settings.low_freq_factor
    shortest = original / settings.high_freq_factor
    if wavelength < shortest:
      return 1.0
    if wavelength > longest:
      return 0.0
    return (original / wavelength - settings.low_freq_factor) / (
      settings.high_freq_factor - settings.low_freq_factor
    )
  # yarn: the (fractional) dimension that turns b times in the old context.
  turning = lambda b: (
    HEAD_DIM / 2 * math.log(original / (2 * math.pi * b), settings.theta)
  )
  low, high = turning(settings.beta_fast), turning(settings.beta_slow)
  if settings.truncate:
    low, high = math.floor(low), math.ceil(high)
  low, high = max(low, 0), min(high, HEAD_DIM - 1)
  return 1 - min(max((i - low) / (high - low), 0), 1)


def _angle(settings, i, position):
  radians = settings.theta ** (-2 * i / HEAD_DIM)
  if settings.type == 'linear':
    return position / settings.factor * radians
  if settings.type == 'default':
    return position * radians
  kept = _wavelength_kept(settings, i)
  return position * (kept * radians + (1 - kept) * radians / settings.factor)


@pytest.mark.parametrize('name', ROPES)
def test_tables_follow_the_formula(name):
  settings = ROPES[name]
  positions = [0, 8, CONTEXT // 2, CONTEXT - 1]
  scale = {'yarn': 0.1 * math.log(4) + 1}.get(name, 1.0)
  if name == 'yarn, all set':
    scale = (0.1 * math.log(4) + 1) / (0.05 * math.log(4) + 1)
  cos, sin = jax.jit(lambda p: rope.tables(settings, HEAD_DIM, p))(
    jnp.array(positions)
  )
  assert cos.dtype == sin.dtype == jnp.float32
  for row, position in enumerate(positions):
    for i in range(HEAD_DIM // 2):
      angle = _angle(settings, i, position)
      # Angles of thousands of radians in float32 are good to some 1e-4.
      np.testing.assert_allclose(
        cos[row, i], scale * math.cos(angle), atol=5e-4
      )
      np.testing.assert_allclose(
        sin[row, i], scale * math.sin(angle), atol=5e-4
      )


def test_linear_literal():
  radians, factor = rope.frequencies(ROPES['linear'], 4)
  np.testing.assert_allclose(8 * radians, [2.0, 0.02], rtol=1e-12)
  assert factor == 1.0


def test_yarn_factor_may_be_given():
  settings = ROPES['yarn']._replace(attention_factor=1.25)
  assert rope.frequencies(settings, HEAD_DIM)[1] == 1.25


def test_rotation_turns_halves():
  cos, sin = jnp.cos(jnp.array([[0.5]])), jnp.sin(jnp.array([[0.5]]))
  x = jnp.array([[[1.0, 0.0], [0.0, 2.0]]])  # one token, two heads
  np.testing.assert_allclose(
    rope.rotate(x, cos, sin)[0],
    [
      [math.cos(0.5), math.sin(0.5)],
      [-2 * math.sin(0.5), 2 * math.cos(0.5)],
    ],
    rtol=1e-6,
  )


def test_unknown_type_is_named():
  with pytest.raises(ValueError, match="'dynamic' is not implemented"):
    rope.frequencies(sizes.Rope(10_000.0, 'dynamic'), 4)
