"""Attention in blocks is attention, and holds the scores of one block."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core

from arl.models import attention, blocks

ROWS, HEADS, GROUPS, DIM = 2, 2, 3, 4


@pytest.fixture(autouse=True)
def small(monkeypatch):
  monkeypatch.setattr(blocks, 'BLOCK', 8)


def drawn(length, dtype=jnp.float32):
  rng = np.random.default_rng(length)
  draw = lambda *shape: jnp.asarray(rng.normal(size=(ROWS, *shape)), dtype)
  query, cotangent = (draw(length, HEADS, GROUPS, DIM) for _ in range(2))
  keys, values = (draw(HEADS, length, DIM) for _ in range(2))
  # Sequences in turn, padding at the end of the first row.
  segments = np.sort(rng.integers(1, 4, (ROWS, length)))
  segments[0, -length // 5 :] = 0
  return (query, keys, values), jnp.asarray(segments), cotangent


def whole(query, keys, values, segments):
  mask = attention.causal(segments)
  return attention._attend(query, keys, values, mask)


def both(attend, arrays, segments, cotangent):
  """The answers where there are tokens, and all three gradients."""
  there = (segments != 0)[:, :, None, None, None]

  @jax.jit
  def run(*arrays):
    made, pull = jax.vjp(lambda *x: attend(*x, segments), *arrays)
    return jnp.where(there, made, 0), *pull(jnp.where(there, cotangent, 0))

  return run(*arrays)


# Shorter than a block; one; several a stage; with parts of a block at the end.
@pytest.mark.parametrize('length', [5, 8, 64, 70, 97])
def test_values_and_gradients_are_those_of_the_whole(length):
  case = drawn(length)
  for a, b in zip(both(blocks.attend, *case), both(whole, *case), strict=True):
    np.testing.assert_allclose(a, b, atol=2e-5)


def test_rows_of_padding_are_finite():
  (query, keys, values), segments, cotangent = drawn(20)
  case = (1e3 * query, keys, values), 0 * segments, cotangent
  made = jax.jit(blocks.attend)(*case[0], case[1])
  assert jnp.isfinite(made).all()
  for each in both(blocks.attend, *case):
    np.testing.assert_array_equal(each, 0)


def sizes_in(jaxpr):
  for equation in jaxpr.eqns:
    yield from (v.aval.size for v in equation.outvars)
    for inner in core.jaxprs_in_params(equation.params):
      yield from sizes_in(inner)


def test_no_more_than_a_block_of_scores_is_made():
  length = 96
  arrays, segments, cotangent = drawn(length)
  run = functools.partial(both, segments=segments, cotangent=cotangent)
  most = lambda attend: max(
    sizes_in(jax.make_jaxpr(lambda *x: run(attend, x))(*arrays).jaxpr)
  )
  scores = ROWS * HEADS * GROUPS * length
  assert most(whole) == scores * length
  assert most(blocks.attend) == scores * blocks.BLOCK


@pytest.mark.parametrize('length', [1, 7, 8, 9, 31, 32, 33, 100, 1000])
def test_stages_cover_all_in_order(length):
  stages = blocks.stages(length)
  assert [b for _, b in stages[:-1]] == [a for a, _ in stages[1:]]
  assert (stages[0][0], stages[-1][1]) == (0, length)
  assert len(stages) <= blocks.STAGES + 1
  assert all((b - a) % 8 == 0 or b - a < 8 for a, b in stages)


def test_half_precision_is_close_and_stays():
  made = both(blocks.attend, *drawn(30, jnp.bfloat16))
  exact = both(blocks.attend, *drawn(30))
  for a, b in zip(made, exact, strict=True):
    assert a.dtype == jnp.bfloat16
    np.testing.assert_allclose(a.astype(jnp.float32), b, atol=0.15)
