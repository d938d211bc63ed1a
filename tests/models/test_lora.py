"""Adapters begin as nothing, are the sum they say, and alone are learnt."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from arl.models import functional, lora, sizes, transformer
from arl.train import forward as forward_lib
from arl.train import optimizers

ALL = r'.*/(query|key|value|out|gate|up|down)'
DENSE = sizes.tiny(31)
MOE = DENSE._replace(
  mixture=sizes.Mixture(
    experts=4, chosen=2, width=24, normalized=True, dense=()
  )
)


def adapted(size, *, targets=ALL, random=True):
  model = transformer.make(size)
  params = model.init(jax.random.key(0))
  made = lora.add(params, jax.random.key(1), rank=3, alpha=6.0, targets=targets)
  if random:
    keys = iter(jax.random.split(jax.random.key(2), 100))
    made = jax.tree_util.tree_map_with_path(
      lambda path, x: (
        jax.random.normal(next(keys), x.shape) * 0.1
        if jax.tree_util.keystr(path).endswith("['lora']['up']")
        else x
      ),
      made,
    )
  return model, params, made


def seen(rows=3, length=12):
  ids = jax.random.randint(jax.random.key(3), (rows, length), 0, 31)
  places = jnp.broadcast_to(jnp.arange(length), ids.shape)
  return ids, places, jnp.ones_like(ids)


def test_a_new_adapter_changes_nothing():
  model, params, made = adapted(DENSE, random=False)
  np.testing.assert_array_equal(
    model.apply(params, *seen()), model.apply(made, *seen())
  )


@pytest.mark.parametrize('size', [DENSE, MOE], ids=['dense', 'experts'])
def test_every_function_of_a_model_is_that_of_the_sum(size):
  model, params, made = adapted(size)
  whole = lora.merged(made)
  assert functional.shapes(whole) == functional.shapes(params)
  ids, places, segments = seen()
  apply = jax.jit(model.apply)
  expected = apply(whole, ids, places, segments)
  assert np.abs(expected - apply(params, ids, places, segments)).max() > 0.05
  found = apply(made, ids, places, segments)
  np.testing.assert_allclose(found, expected, atol=2e-5)
  cache = model.cache(3, 16)
  extend = jax.jit(model.extend)
  np.testing.assert_allclose(
    extend(made, ids, places, cache)[0],
    extend(whole, ids, places, cache)[0],
    atol=2e-5,
  )
  maxima = jax.jit(model.attention_maxima)
  np.testing.assert_allclose(
    maxima(made, ids, places, segments),
    maxima(whole, ids, places, segments),
    atol=2e-5,
  )


def test_the_sum_by_hand():
  adapter = {
    'down': jnp.array([[1.0], [2.0]]),
    'up': jnp.array([[3.0, 4.0]]),
    'scale': jnp.float32(0.5),
  }
  params = {
    'a': {'kernel': jnp.ones((2, 2)), 'lora': adapter},
    'b': jnp.ones(2),
  }
  made = lora.merged(params)
  np.testing.assert_array_equal(made['a']['kernel'], [[2.5, 3.0], [4.0, 5.0]])
  assert set(made['a']) == {'kernel'} and made['b'] is params['b']


def test_params_without_adapters_are_given_back():
  params = transformer.make(DENSE).init(jax.random.key(0))
  made = lora.merged(params)
  same = jax.tree.map(lambda x, y: x is y, params, made)
  assert all(jax.tree.leaves(same))


def test_scale_is_alpha_by_rank_and_targets_are_whole_paths():
  _, _, made = adapted(DENSE, targets=r'layers/0/attention/(query|value)')
  _, found = lora.apart(made)
  assert set(found) == {'layers/0/attention/query', 'layers/0/attention/value'}
  assert all(float(x['scale']) == 2.0 for x in found.values())
  downs = [np.asarray(x['down']) for x in found.values()]
  assert not np.array_equal(*downs)


def test_a_router_has_none():
  _, _, made = adapted(MOE, targets='.*')
  _, found = lora.apart(made)
  kinds = {path.split('/')[-1] for path in found}
  assert kinds == {'query', 'key', 'value', 'out'}


def test_adapters_alone_are_learnt_for_two_thirds_of_the_work():
  size = DENSE._replace(width=64, mlp_width=256)
  model, _, made = adapted(size)
  columns = dict(zip(('tokens', 'positions', 'segments'), seen(4, 64)))
  columns['mask'] = jnp.broadcast_to(jnp.arange(64) > 0, (4, 64))
  forward = forward_lib.make(model, temperature=1.0, chunk=0)

  def gradient(forward):
    loss = lambda p: forward(p, columns, frozenset({'logp'}))['logp'].mean()
    return jax.jit(jax.grad(loss))

  fixed = forward_lib.without(forward, lora.FROZEN)
  grads = gradient(fixed)(made)
  paths = jax.tree_util.tree_leaves_with_path(grads)
  moved = {
    jax.tree_util.keystr(path, simple=True, separator='/')
    for path, x in paths
    if np.any(x != 0)
  }
  assert moved and all(re.search('/lora/(down|up)$', path) for path in moved)
  flops = lambda f: gradient(f).lower(made).compile().cost_analysis()['flops']
  assert flops(fixed) < 0.8 * flops(forward)


def test_what_is_frozen_beside_a_value_head():
  _, _, made = adapted(DENSE)
  head = {'weight': jnp.zeros(4), 'bias': jnp.zeros(()), 'trunk': made}
  fixed = optimizers.matching({**made, 'value_head': head}, lora.FROZEN)
  free = {
    jax.tree_util.keystr(path, simple=True, separator='/')
    for path, stays in jax.tree_util.tree_leaves_with_path(fixed)
    if not stays
  }
  assert {'value_head/weight', 'value_head/bias'} < free
  assert 'value_head/trunk/layers/0/mlp/up/lora/up' in free
  rest = free - {'value_head/weight', 'value_head/bias'}
  assert all(re.search('/lora/(down|up)$', path) for path in rest)


@pytest.mark.parametrize(
  'changed, message',
  [
    ({'rank': 0}, 'a rank of 1 or more'),
    ({'alpha': 0.0}, 'an alpha'),
    ({'targets': 'layers/0/attention'}, 'names no projection'),
    ({'rank': 1000}, 'saves nothing'),
  ],
)
def test_what_cannot_be_adapted_is_refused(changed, message):
  params = transformer.make(DENSE).init(jax.random.key(0))
  given = {'rank': 2, 'alpha': 2.0, 'targets': ALL, **changed}
  with pytest.raises(ValueError, match=message):
    lora.add(params, jax.random.key(0), **given)


def test_an_adapter_of_other_sizes_is_refused():
  model, _, made = adapted(DENSE)
  spoilt = made['layers']['0']['mlp']['up']['lora']
  spoilt['down'] = spoilt['down'][:, :2]
  with pytest.raises(ValueError, match='layers/0/mlp/up is'):
    model.apply(made, *seen())
