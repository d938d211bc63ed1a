"""MLPs by groups of picks against all of them for every token."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl.models import grouped

CASES = {
  'even': [4, 4, 4],
  'ragged': [1, 0, 30, 2, 0],
  'one group': [0, 17, 0],
  'one pick': [0, 0, 0, 1],
  'more groups than picks': [1, 0, 0, 1, 0, 0, 1, 0, 0, 0],
  'several tiles': [70, 3, 40],
}
CLOSE = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)
TOKENS, WIDTH, INNER = 70, 8, 5
HEIGHTS = [grouped.ON_CPU, grouped.ELSEWHERE]
RUN = jax.jit(lambda *seen: grouped.mlp(len(seen[3]), *seen))


def drawn(name, dtype=jnp.float32, room=0):
  """What `grouped.mlp` takes; none of a group's tokens comes twice."""
  rng, sizes = np.random.default_rng(0), np.array(CASES[name], np.int32)
  x = rng.normal(size=(TOKENS, WIDTH))
  picked = [rng.choice(TOKENS, n, replace=False) for n in sizes]
  picked = np.concatenate([*picked, rng.integers(0, TOKENS, room)])
  weights = rng.normal(size=len(picked)).astype(np.float32)
  shapes = (WIDTH, INNER), (WIDTH, INNER), (INNER, WIDTH)
  matrices = [
    rng.normal(scale=0.3, size=(len(sizes), *shape)) for shape in shapes
  ]
  cast = lambda x: jnp.asarray(x, dtype)
  return (
    cast(x), picked.astype(np.int32), weights, sizes, *map(cast, matrices),
  )  # fmt: skip


def densely(x, picked, weights, sizes, gate, up, down):
  """Every token through every MLP, those that were not picked times 0."""
  group = np.repeat(np.arange(len(sizes)), sizes)
  n = len(group)
  share = jnp.zeros((len(x), len(sizes)))
  share = share.at[picked[:n], group].add(jnp.asarray(weights)[:n])
  hidden = jax.nn.silu(jnp.einsum('nd,edf->nef', x, gate))
  hidden = hidden * jnp.einsum('nd,edf->nef', x, up)
  return jnp.einsum('ne,nef,efd->nd', share, hidden, down)


def pulled(function, arguments):
  """Gradients by x, weights and the matrices of a sum over the result."""
  x, picked, weights, sizes, *matrices = arguments

  def total(x, weights, *matrices):
    return jnp.sin(function(x, picked, weights, sizes, *matrices)).sum()

  return jax.jit(jax.grad(total, (0, 1, 2, 3, 4)))(x, weights, *matrices)


@pytest.mark.parametrize('name', CASES)
def test_each_pick_goes_through_the_mlp_of_its_group(name):
  arguments = drawn(name)
  CLOSE(RUN(*arguments), densely(*arguments))


@pytest.mark.parametrize('name', CASES)
def test_gradients(name):
  arguments = drawn(name)
  found, expected = (pulled(f, arguments) for f in (RUN, densely))
  for one, other in zip(found, expected, strict=True):
    CLOSE(one, other)


@pytest.mark.parametrize('name', CASES)
def test_tiles_of_accelerators_mean_the_same(name):
  arguments = drawn(name)
  low, high = (grouped._summed(height, *arguments) for height in HEIGHTS)
  CLOSE(low, high)
  back = [grouped._pulled(h, jnp.cos(low), *arguments) for h in HEIGHTS]
  jax.tree.map(CLOSE, *back)


def test_picks_of_no_group_are_room():
  x, picked, weights, *rest = drawn('ragged', room=40)
  n = len(picked) - 40
  weights[n:] = np.nan
  few = x, picked[:n], weights[:n], *rest
  many = x, picked, weights, *rest
  CLOSE(RUN(*many), RUN(*few))
  found, expected = pulled(RUN, many), pulled(RUN, few)
  np.testing.assert_array_equal(found[1][n:], 0)
  found = found[0], found[1][:n], *found[2:]
  jax.tree.map(CLOSE, found, expected)


def test_tiles_cover_each_group_once():
  sizes, height = np.array([9, 0, 70, 1]), 16
  picked = np.arange(len(sizes) * 30, dtype=np.int32)
  weights = np.zeros(len(picked), np.float32)
  fetch, used = grouped._tiles(picked, weights, sizes, len(picked), height)
  assert used == np.sum(-(-sizes // height))  # room has none
  covered = []
  for i in range(used):
    tile = fetch(i)
    here = tile.tokens[tile.tokens < len(picked)]
    assert 0 < len(here) <= height
    first = sum(sizes[: tile.group])
    assert first <= here[0] == tile.start
    assert here[-1] < first + sizes[tile.group]
    covered += here.tolist()
  assert covered == list(range(sizes.sum()))


def test_a_token_does_not_depend_on_the_others():
  x, picked, *rest = drawn('several tiles')
  one = picked[50]
  others = jnp.where(jnp.arange(TOKENS)[:, None] == one, x, jnp.nan)
  np.testing.assert_array_equal(
    RUN(others, picked, *rest)[one], RUN(x, picked, *rest)[one]
  )


def test_sums_are_wider_than_half_precision():
  arguments = drawn('even', jnp.bfloat16)
  made = RUN(*arguments)
  assert made.dtype == jnp.float32
  wide = [x.astype(jnp.float32) for x in (arguments[0], *arguments[4:])]
  exact = densely(wide[0], *arguments[1:4], *wide[1:])
  # Hidden units are rounded once; the sums that follow are not.
  np.testing.assert_allclose(made, exact, rtol=0.02, atol=0.1)


@pytest.mark.parametrize(
  'picks, groups, most, height',
  [
    (1, 4, 64, 8),
    (8, 128, 64, 8),
    (100, 8, 64, 16),
    (4096, 128, 64, 64),
    (10**6, 8, 64, 64),
    (10**6, 8, 512, 512),
  ],
)
def test_a_tile_is_about_a_group(picks, groups, most, height):
  assert grouped.tile_height(picks, groups, most) == height
