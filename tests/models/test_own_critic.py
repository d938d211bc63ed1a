"""A critic with a trunk of its own: what it reads, and what moves it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from arl.models import critics, functional, heads, sizes, transformer
from arl.train import forward as forward_lib

VOCAB, WIDTH = 19, 32
WANT = frozenset({'logp', 'value', 'value_after'})


@functools.cache
def _case():
  model = transformer.make(sizes.tiny(VOCAB))
  keys = jax.random.split(jax.random.key(0), 4)
  params = heads.with_value_head(model.init(keys[0]), WIDTH)
  params['value_head'] = {
    'weight': jax.random.normal(keys[1], [WIDTH]),
    'bias': jnp.float32(0.5),
  }
  ids = jax.random.randint(keys[2], (2, 6), 0, VOCAB)
  columns = {
    'tokens': ids,
    'positions': jnp.broadcast_to(jnp.arange(6), ids.shape),
    'segments': jnp.ones_like(ids),
    'mask': jnp.broadcast_to(jnp.arange(6) > 2, ids.shape),
  }
  forward = forward_lib.make(model, temperature=1.0, chunk=4)
  return forward, model, params, columns


def test_a_value_after_a_token_is_that_before_the_next():
  forward, _, params, columns = _case()
  made = forward(params, columns, WANT)
  np.testing.assert_allclose(
    made['value_after'][:, 3:-1], made['value'][:, 4:], rtol=1e-5
  )
  assert not np.any(made['value_after'][:, :3])


def test_a_value_after_the_last_token_reads_it():
  forward, model, params, columns = _case()
  hidden = model.apply(
    params, columns['tokens'], columns['positions'], columns['segments']
  )
  head = params['value_head']
  want = hidden[:, -1] @ head['weight'] + jnp.full((2,), head['bias'])
  got = forward(params, columns, frozenset({'value_after'}))['value_after']
  np.testing.assert_allclose(got[:, -1], want, rtol=1e-5)


def test_a_trunk_of_its_own_begins_as_the_policys():
  forward, _, params, columns = _case()
  own = critics.with_trunk(params)
  want, got = (forward(each, columns, WANT) for each in (params, own))
  for name in WANT:
    np.testing.assert_allclose(got[name], want[name], rtol=1e-6)
  assert critics.policy(own).keys() == critics.policy(params).keys()
  tree = jax.tree.structure
  assert tree(critics.alone(own)) == tree(critics.alone(params))
  assert tree(critics.alone(params)) == tree(params)


def test_neither_moves_the_other():
  forward, _, params, columns = _case()
  own = critics.with_trunk(params)

  @functools.partial(jax.jit, static_argnums=1)
  def slopes(params, name):
    made = lambda params: forward(params, columns, WANT)[name].sum()
    grads = jax.grad(made)(params)
    size = lambda tree: sum(jnp.sum(jnp.abs(x)) for x in jax.tree.leaves(tree))
    critic = grads[functional.VALUE_HEAD]
    return size(critics.policy(grads)), size(critic)

  for name, policy, critic in (
    ('logp', True, False), ('value', False, True), ('value_after', False, True),
  ):  # fmt: skip
    of_policy, of_critic = slopes(own, name)
    assert (of_policy > 0, of_critic > 0) == (policy, critic), name
  of_policy, _ = slopes(params, 'value')
  assert of_policy > 0
