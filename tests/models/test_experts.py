"""Mixtures of experts: what a token goes through, chosen and replayed."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from arl.models import experts, sizes, transformer

MIXTURE = sizes.Mixture(experts=6, chosen=2, width=24)
# The second of three layers has an ordinary MLP.
SIZE = sizes.tiny_moe()._replace(layers=3, mixture=MIXTURE._replace(dense=(1,)))
TOKENS = jax.random.randint(jax.random.key(1), (2, 9), 0, SIZE.vocab)
POSITIONS = jnp.broadcast_to(jnp.arange(9), TOKENS.shape)
SEEN = TOKENS, POSITIONS, jnp.ones_like(TOKENS)


@functools.cache
def made(dtype='float32', remat='none'):
  model, rng = transformer.make(SIZE, dtype, remat), np.random.default_rng(0)
  shapes = jax.eval_shape(model.init, jax.random.key(0))
  draw = lambda x: jnp.asarray(0.3 * rng.normal(size=x.shape), x.dtype)
  return model, jax.tree.map(draw, shapes)


@functools.cache
def routes():
  model, params = made()
  return jax.jit(model.routes)(params, *SEEN)


def others():
  """Other experts for every token: those after its own."""
  return (routes() + 1) % 6


# One mixture.


def layer(normalized=True):
  mixture = MIXTURE._replace(normalized=normalized)
  return experts.Mixture(16, mixture, jnp.dtype('float32'), nnx.Rngs(0))


def by_loops(mixture, x, chosen, normalized):
  """What becomes of each token, expert by expert: a slow twin."""
  scores = np.asarray(x @ mixture.router.kernel[...], np.float64)
  shares = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
  matrices = [
    np.asarray(getattr(mixture.experts, name)[...], np.float64)
    for name in ('gate', 'up', 'down')
  ]
  found = np.zeros(x.shape)
  for i, row in enumerate(np.asarray(x, np.float64)):
    total = shares[i, chosen[i]].sum() if normalized else 1
    for e in chosen[i]:
      gate, up, down = (matrix[e] for matrix in matrices)
      hidden = row @ gate / (1 + np.exp(-row @ gate)) * (row @ up)
      found[i] += shares[i, e] / total * (hidden @ down)
  return found


@pytest.mark.parametrize('normalized', [True, False])
@pytest.mark.parametrize('replayed', [True, False])
def test_it_is_a_weighted_sum_of_experts(normalized, replayed):
  mixture, rng = layer(normalized), np.random.default_rng(1)
  x = jnp.asarray(rng.normal(size=(20, 16)), jnp.float32)
  own = np.argsort(-np.asarray(x @ mixture.router.kernel[...]))[:, :2]
  given = np.stack([rng.permutation(6)[:2] for _ in x]) if replayed else None
  found, chosen = mixture(x, given)
  np.testing.assert_array_equal(chosen, own)
  expected = by_loops(mixture, x, given if replayed else own, normalized)
  np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_of_equally_likely_experts_the_first():
  logits = jnp.array([[0.0, 2, 2, 2], [1, 1, 1, 1]])
  np.testing.assert_array_equal(experts.choose(logits, 2), [[1, 2], [0, 1]])


def test_weights_of_experts_far_from_likely_still_add_up():
  logits = jnp.array([[0.0, 300, -300, -301]])
  weights = experts.weigh(logits, jnp.array([[2, 3]]), True)
  np.testing.assert_allclose(weights, [[0.7311, 0.2689]], atol=1e-4)
  assert not experts.weigh(logits, jnp.array([[2, 3]]), False).any()


def test_an_expert_that_there_is_not_makes_nan():
  for normalized in (True, False):
    weights = experts.weigh(jnp.zeros((1, 4)), jnp.array([[1, 4]]), normalized)
    assert jnp.isnan(weights).any()


def test_a_token_does_not_depend_on_the_others():
  mixture, key = layer(), jax.random.key(2)
  x = jax.random.normal(key, (40, 16))
  run = jax.jit(lambda x: mixture(x)[0])
  expected, order = run(x), jax.random.permutation(key, 40)
  np.testing.assert_array_equal(run(x[order]), expected[order])
  crowd = jnp.broadcast_to(x[3], x.shape).at[7].set(x[7])
  np.testing.assert_array_equal(run(crowd)[7], expected[7])


# The decoder.


def test_shapes():
  model, params = made()
  assert model.experts == (3, 2)
  first, second = params['layers']['0']['mlp'], params['layers']['1']['mlp']
  shapes = jax.tree.map(jnp.shape, first)
  assert shapes == {
    'router': {'kernel': (32, 6)},
    'experts': {'gate': (6, 32, 24), 'up': (6, 32, 24), 'down': (6, 24, 32)},
  }
  assert second['up']['kernel'].shape == (32, 48)
  *pairs, chosen = model.cache(4, 7)
  assert len(pairs) == 3 and chosen.shape == (4, 3, 7, 2)
  assert chosen.dtype == jnp.int32


def test_each_layer_is_listed_and_one_without_experts_as_0():
  found = np.asarray(routes())
  assert found.shape == (2, 9, 3, 2) and found.dtype == np.int32
  assert not found[:, :, 1].any()
  mixed = found[:, :, ::2]
  assert len(np.unique(mixed)) == 6 and np.all(mixed[..., 0] != mixed[..., 1])


def test_a_model_without_experts_lists_none():
  model = transformer.make(sizes.tiny())
  params = model.init(jax.random.key(0))
  assert model.experts == (0, 0)
  assert model.routes(params, *SEEN).shape == (2, 9, 0, 0)


def test_the_cache_holds_what_each_token_chose():
  model, params = made()
  cache, extend = model.cache(2, 12), jax.jit(model.extend)
  for start, stop in ((0, 4), (4, 8), (8, 9)):
    at = slice(start, stop)
    _, cache = extend(params, TOKENS[:, at], POSITIONS[:, at], cache)
  held = cache[-1].swapaxes(1, 2)
  np.testing.assert_array_equal(held[:, :9], routes())
  assert not held[:, 9:].any()
  nowhere = jnp.full((2, 1), -1)
  _, after = extend(params, TOKENS[:, :1], nowhere, cache)
  np.testing.assert_array_equal(after[-1], cache[-1])


# Replay.


def test_replaying_its_own_choice_changes_no_bit():
  model, params = made()
  apply = jax.jit(model.apply)
  expected = apply(params, *SEEN)
  np.testing.assert_array_equal(apply(params, *SEEN, routes()), expected)
  unknown = jnp.full_like(routes(), -1)
  np.testing.assert_array_equal(apply(params, *SEEN, unknown), expected)


def test_other_experts_make_another_token():
  model, params = made()
  traced = jax.jit(model.traced)
  given = routes().at[0, 4].set(others()[0, 4])
  (plain, own), (found, routed) = (
    traced(params, *SEEN, experts) for experts in (routes(), given)
  )
  differ = jnp.any(plain != found, -1)
  assert not differ[:, :4].any() and not differ[1].any()
  assert differ[0, 4:].all()
  # The first layer's routers see what they saw: others were only given there.
  np.testing.assert_array_equal(routed[:, :, 0], own[:, :, 0])


def test_a_token_of_unknown_experts_chooses_itself():
  model, params = made()
  traced = jax.jit(model.traced)
  part = others().at[:, 5:].set(-1)
  hidden, own = traced(params, *SEEN, part)
  filled = jnp.where(part < 0, own, part)
  np.testing.assert_array_equal(traced(params, *SEEN, filled)[0], hidden)


@pytest.mark.parametrize('remat', transformer.REMAT)
def test_gradients_reach_the_router_and_the_given_experts_alone(remat):
  model, params = made(remat=remat)
  given = jnp.broadcast_to(jnp.array([4, 1]), (2, 9, 3, 2))

  def loss(params):
    return (model.apply(params, *SEEN, given) ** 3).sum()

  grads = jax.jit(jax.grad(loss))(params)['layers']
  for i in ('0', '2'):
    moved = {
      'router': jnp.any(grads[i]['mlp']['router']['kernel'] != 0, 0),
      **{
        name: jnp.any(grad != 0, (1, 2))
        for name, grad in grads[i]['mlp']['experts'].items()
      },
    }
    for name, which in moved.items():
      assert np.flatnonzero(which).tolist() == [1, 4], name


def test_remat_keeps_the_choice_and_changes_nothing():
  found = []
  for remat in transformer.REMAT:
    model, params = made(remat=remat)
    loss = lambda params, model=model: (model.apply(params, *SEEN) ** 2).sum()
    found.append(jax.jit(jax.grad(loss))(params))
    text = str(jax.make_jaxpr(jax.grad(loss))(params))
    assert text.count('top_k') == 2  # of the forward pass, and no more
  close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
  for other in found[1:]:
    jax.tree.map(close, found[0], other)


def test_it_undoes_what_rounding_does_to_the_choice():
  size = SIZE._replace(
    width=64,
    layers=4,
    mixture=sizes.Mixture(experts=8, chosen=2, width=48),
  )
  trainer, sampler = transformer.make(size), transformer.make(size, 'bfloat16')
  rng = np.random.default_rng(0)
  params = jax.tree.map(
    lambda x: jnp.asarray(0.1 * rng.normal(size=x.shape) + (x.ndim < 2)),
    jax.eval_shape(trainer.init, jax.random.key(0)),
  )
  tokens = jax.random.randint(jax.random.key(1), (16, 64), 0, size.vocab)
  positions = jnp.broadcast_to(jnp.arange(64), tokens.shape)

  def run(model, given=None):
    seen = tokens, positions, jnp.ones_like(tokens), given
    hidden, own = jax.jit(model.traced)(params, *seen)
    return jax.nn.log_softmax(model.logits(params, hidden)), own

  sampled, given = run(sampler)
  own, chosen = run(trainer)
  replayed, _ = run(trainer, given)
  chosen, given = np.sort(chosen), np.sort(given)
  assert 0 < (chosen != given).any((-2, -1)).mean() < 0.2
  ids = jax.random.categorical(jax.random.key(2), sampled)[..., None]
  pick = lambda logs: jnp.take_along_axis(logs, ids, -1)
  far = lambda logs: jnp.abs(jnp.exp(pick(logs) - pick(sampled)) - 1) > 0.1
  kl = lambda logs: (jnp.exp(logs) * (logs - sampled)).sum(-1).mean()
  assert 10 * kl(replayed) < kl(own)
  assert 10 * far(replayed).sum() < far(own).sum()


# What is refused.


@pytest.mark.parametrize(
  'given',
  [
    jnp.zeros((2, 9, 2, 2), jnp.int32),
    jnp.zeros((2, 9, 3, 1), jnp.int32),
    jnp.zeros((2, 8, 3, 2), jnp.int32),
    jnp.zeros((2, 9, 6), jnp.int32),
    jnp.zeros((2, 9, 3, 2), jnp.float32),
  ],
)
def test_experts_of_another_shape(given):
  model, params = made()
  with pytest.raises(ValueError, match=r'wants integers \(2, 9, 3, 2\)'):
    model.apply(params, *SEEN, given)


def test_experts_for_a_model_without_any():
  model = transformer.make(sizes.tiny())
  params = model.init(jax.random.key(0))
  with pytest.raises(ValueError, match=r'\(0, 0\) are its layers'):
    model.apply(params, *SEEN, routes())


@pytest.mark.parametrize(
  'change, match',
  [
    ({'chosen': 7}, 'chooses 7 of 6'),
    ({'chosen': 0}, 'chooses 0 of 6'),
    ({'dense': (0, 1, 2)}, 'not all'),
    ({'dense': (3,)}, 'name some of them'),
    ({'dense': (2, 0)}, 'in order'),
  ],
)
def test_mixtures_that_cannot_be(change, match):
  size = SIZE._replace(mixture=MIXTURE._replace(**change))
  with pytest.raises(ValueError, match=match):
    transformer.make(size)
