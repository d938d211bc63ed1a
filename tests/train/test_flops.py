"""Arithmetic that is counted by hand is what the compiler counts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl.models import sizes, transformer
from arl.train import flops, forward

ROWS, WIDTH = 2, 64


def counted(function, *given) -> float:
  return jax.jit(function).lower(*given).compile().cost_analysis()['flops']


@pytest.mark.parametrize('layers', [1, 2])
def test_a_forward_pass_is_what_the_compiler_counts(layers):
  size = sizes.tiny(97)._replace(
    width=128, layers=layers, head_dim=32, mlp_width=256
  )
  model = transformer.make(size)
  params = model.init(jax.random.key(0))
  tokens = jnp.zeros((ROWS, WIDTH), jnp.int32)
  positions = jnp.broadcast_to(jnp.arange(WIDTH), tokens.shape)
  found = counted(model.apply, params, tokens, positions, tokens + 1)
  n = tokens.size
  # The compiled pass computes the pairs that the mask then hides.
  want = n * flops.of_token(size) + n * WIDTH * flops.of_pair(size)
  assert 1 <= found / want < 1.15  # norms, rotations and the softmax
  states = jnp.zeros((n, size.width))
  head = counted(model.logits, params, states)
  assert head == pytest.approx(n * flops.of_choice(size), rel=0.02)


@pytest.mark.parametrize(
  'frozen, want',
  [
    ('', (1, 1, True)),
    ('embed/.*', (1, 1, False)),
    ('embed/.*|layers/[01]/.*', (0.5, 0.5, False)),
    # Of a layer's matrices two fifths are attention's, three the MLP's.
    ('embed/.*|layers/[012]/.*|layers/3/attention/.*', (0.25, 0.15, False)),
    ('layers/.*', (1, 0, True)),
  ],
)
def test_a_gradient_step_is_what_the_compiler_counts(frozen, want):
  size = sizes.tiny(97)._replace(
    width=128, heads=4, kv_heads=4, head_dim=32, layers=4, mlp_width=256
  )
  model = transformer.make(size)
  params = model.init(jax.random.key(0))
  trains = flops.trained(params, size, frozen)
  assert trains == pytest.approx(want)
  tokens = jnp.zeros((ROWS, WIDTH), jnp.int32)
  columns = {
    'tokens': tokens,
    'positions': jnp.broadcast_to(jnp.arange(WIDTH), tokens.shape),
    'segments': tokens + 1,
    'mask': (tokens + 1).astype(bool),
  }
  read = forward.make(model, temperature=1.0, chunk=0)
  if frozen:
    read = forward.without(read, frozen)
  logp = lambda p, c: read(p, c, frozenset({'logp'}))['logp'].sum()
  found = counted(jax.grad(logp), params, columns)
  # The compiled step computes the pairs that the mask then hides.
  hidden = ROWS * WIDTH * (WIDTH - 1) / 2 * flops.of_pair(size)
  hidden *= 1 + 2 * trains.passed
  made = flops.of_update(size, columns, trains) + hidden
  assert 1 <= found / made < 1.2


def test_experts_count_as_often_as_they_are_chosen():
  dense = sizes.tiny(97)
  mixed = dense._replace(mixture=sizes.Mixture(experts=6, chosen=2, width=24))
  # Two experts half as wide are one MLP; the router is extra.
  router = 2 * dense.width * 6 * dense.layers
  assert flops.of_token(mixed) == flops.of_token(dense) + router
  first = mixed._replace(mixture=mixed.mixture._replace(dense=(0,)))
  assert flops.of_token(first) == flops.of_token(dense) + router / 2


def test_padding_and_context_do_not_count_where_they_are_not():
  size = sizes.tiny(97)
  columns = {
    'segments': np.array([[1, 1, 1, 0], [1, 1, 2, 2]]),
    'positions': np.array([[0, 1, 2, 0], [0, 1, 0, 1]]),
    'mask': np.array([[0, 0, 1, 0], [0, 1, 0, 1]], bool),
  }
  pairs = (1 + 2 + 3) + (1 + 2) + (1 + 2)
  want = 7 * flops.of_token(size) + pairs * flops.of_pair(size)
  want += 3 * flops.of_choice(size)
  assert flops.of_update(size, columns) == pytest.approx(3 * want)
  told = flops.rates(size, columns, 2, 0.5)
  assert told == {'speed/update_flops': pytest.approx(12 * want)}
  told = flops.rates(size, columns, 1, 1.0, most=6 * want)
  assert told['speed/update_peak'] == pytest.approx(0.5)


def test_a_peak_is_a_rate_of_products():
  best = flops.peak()
  x = jnp.ones((256, 256))
  assert best > 1e8 and counted(jnp.matmul, x, x) == 2 * 256**3
