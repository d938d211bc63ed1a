"""Experts over devices: each computes its own, and nothing is lost."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from arl.models import experts, functional, layout, sizes, transformer
from arl.train import sharding

MIXTURE = sizes.Mixture(experts=8, chosen=3, width=12)
LAYOUTS = [
  {'expert': 4},
  {'data': 2, 'expert': 2, 'tensor': 2},
  {'fsdp': 2, 'expert': 4},
  {'data': 8},
  {'expert': 3},  # which does not divide the experts
]
TOKENS = 24


def layer():
  kind = jnp.dtype('float32')
  return experts.Mixture(16, MIXTURE, kind, nnx.Rngs(0))


def lying(axes) -> layout.Layout:
  return sharding.layout(sharding.make_mesh(**axes))


@functools.cache
def tokens(skew):
  """Tokens [24, 16] and what they choose; skewed, most choose expert 0."""
  rng = np.random.default_rng(0)
  drawn = [
    rng.choice(8, 3, replace=False, p=np.r_[1 - 7 * skew, [skew] * 7])
    for _ in range(TOKENS)
  ]
  x = jnp.asarray(rng.normal(size=(TOKENS, 16)), jnp.float32)
  return x, jnp.asarray(drawn, jnp.int32)


def run(axes, skew):
  """The value and gradients of a sum over the layer on a mesh."""
  graph, state = nnx.split(layer())
  where = lying(axes) if axes else None

  def total(state, x, chosen):
    made, _ = nnx.merge(graph, state)(x, chosen, where)
    return jnp.sin(made * jnp.arange(16.0)[None] / 8).sum()

  return jax.jit(jax.value_and_grad(total, (0, 1)))(state, *tokens(skew))


@pytest.mark.parametrize('skew', [1 / 8, 1e-4], ids=['even', 'skewed'])
@pytest.mark.parametrize('axes', LAYOUTS, ids=str)
def test_devices_make_what_one_makes(axes, skew, compiled_once):
  del compiled_once
  close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=2e-5)
  jax.tree.map(close, run(axes, skew), run({}, skew))


@pytest.mark.parametrize('axes', LAYOUTS[:4], ids=str)
def test_each_pick_is_multiplied_on_one_device(axes, monkeypatch):
  """Picks on every device that has them to itself."""
  counts, mlp = [], experts.grouped.mlp

  def counting(spread, x, picked, weights, sizes, *matrices):
    jax.debug.callback(
      lambda n, room, have: counts.append((int(n), int(room), int(have))),
      sizes.sum(), jnp.int32(len(picked)), jnp.int32(len(sizes)),
    )  # fmt: skip
    assert spread == MIXTURE.experts
    return mlp(spread, x, picked, weights, sizes, *matrices)

  monkeypatch.setattr(experts.grouped, 'mlp', counting)
  graph, state = nnx.split(layer())
  apply = lambda state, *seen: nnx.merge(graph, state)(*seen, lying(axes))[0]
  jax.block_until_ready(jax.jit(apply)(state, *tokens(1 / 8)))
  jax.effects_barrier()
  made = np.array(counts)
  alike = axes.get('tensor', 1)  # these share the columns, not the picks
  assert made[:, 0].sum() == alike * TOKENS * MIXTURE.chosen
  split = axes.get('expert', 1)
  assert set(made[:, 2]) == {MIXTURE.experts // split}
  group = TOKENS * split // (np.prod(list(axes.values())) // alike)
  picks = min(MIXTURE.chosen, MIXTURE.experts // split)
  assert set(made[:, 1]) == {group * picks}


def test_cached_tokens_go_over_devices_as_well(compiled_once):
  del compiled_once
  model = transformer.make(sizes.tiny_moe())
  params = model.init(jax.random.key(0))
  rows, new = 8, 3
  ids = jax.random.randint(jax.random.key(1), (rows, new), 0, model.vocab)
  positions = jnp.broadcast_to(jnp.arange(new), ids.shape)
  where = lying({'data': 2, 'expert': 2, 'tensor': 2})
  run = lambda model: jax.jit(model.extend)(
    params, ids, positions, model.cache(rows, 4)
  )
  (made, kept), (wanted, held) = (
    run(functional.placed(model, where)),
    run(model),
  )
  close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=2e-5)
  close(made, wanted)
  jax.tree.map(close, kept, held)
