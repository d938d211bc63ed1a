"""Frozen parameters: they stay, cost nothing, and the others do not notice."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from arl.models import functional, sizes, transformer
from arl.train import forward as forward_lib
from arl.train import optimizers

BELOW = r'embed/.*|layers/[012]/.*'
WANT = frozenset({'logp'})


@pytest.fixture(scope='module')
def case():
  size = sizes.tiny(31)._replace(layers=4)
  model = transformer.make(size, remat='layer')
  ids = jax.random.randint(jax.random.key(1), (4, 24), 0, 31)
  columns = {
    'tokens': ids,
    'positions': jnp.broadcast_to(jnp.arange(24), ids.shape),
    'segments': jnp.ones_like(ids),
    'mask': jnp.broadcast_to(jnp.arange(24) > 15, ids.shape),
  }
  forward = forward_lib.make(model, temperature=1.0, chunk=16)
  return forward, model.init(jax.random.key(0)), columns


def gradient(forward, columns):
  return jax.jit(
    jax.grad(lambda params: forward(params, columns, WANT)['logp'].sum())
  )


def by_path(tree):
  return {
    jax.tree_util.keystr(path, simple=True, separator='/'): leaf
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
  }


def test_paths_are_matched_whole():
  params = {'embed': {'e': 1.0}, 'layers': {'1': {'w': 1.0}, '11': {'w': 1.0}}}
  found = by_path(optimizers.matching(params, r'embed/.*|layers/1/.*'))
  assert found == {'embed/e': True, 'layers/1/w': True, 'layers/11/w': False}


@pytest.mark.parametrize(
  'pattern, message',
  [
    ('layers/9', 'matches no parameter'),
    ('.*', 'matches every parameter'),
    ('(', 'no regular expression'),
  ],
)
def test_patterns_that_freeze_nothing_or_all_are_refused(pattern, message):
  with pytest.raises(ValueError, match=message):
    optimizers.matching({'a': 1.0, 'layers': 2.0}, pattern)


def test_gradients_of_the_rest_are_what_they_were(case):
  forward, params, columns = case
  expected = by_path(gradient(forward, columns)(params))
  found = by_path(
    gradient(forward_lib.without(forward, BELOW), columns)(params)
  )
  moved = [path for path in found if np.any(found[path] != 0)]
  assert {path.split('/')[0] for path in moved} == {'layers', 'norm'}
  assert all(path.startswith(('layers/3/', 'norm/')) for path in moved)
  assert len(moved) == 10
  for path in moved:
    np.testing.assert_allclose(found[path], expected[path], atol=1e-5)


def test_nothing_is_differentiated_below(case):
  forward, params, columns = case
  flops = lambda f: (
    gradient(f, columns).lower(params).compile().cost_analysis()['flops']
  )
  assert flops(forward_lib.without(forward, BELOW)) < 0.6 * flops(forward)


def test_the_optimizer_neither_moves_nor_remembers_them():
  params = {'low': jnp.ones(3), 'high': jnp.ones(2)}
  tx = optimizers.adamw(
    lr=0.1,
    warmup=0,
    decay=0,
    b1=0.9,
    b2=0.99,
    weight_decay=0.1,
    max_norm=1.0,
  )
  tx = optimizers.except_for(tx, 'low')
  state = tx.init(params)
  grads = {'low': jnp.ones(3), 'high': jnp.array([0.3, -0.4])}
  with jax.numpy_dtype_promotion('standard'):  # optax needs it
    updates, state = tx.update(grads, state, params)
  moved = optax.apply_updates(params, updates)
  np.testing.assert_array_equal(moved['low'], 1.0)
  np.testing.assert_allclose(moved['high'], [0.89, 1.09], atol=1e-6)
  assert {x.shape for x in jax.tree.leaves(state)} == {(), (2,)}


def test_a_value_head_can_be_named(case):
  _, params, _ = case
  params = {**params, functional.VALUE_HEAD: {'weight': jnp.zeros(3)}}
  found = by_path(optimizers.matching(params, r'(?!value_head/).*'))
  assert [path for path in found if not found[path]] == ['value_head/weight']
