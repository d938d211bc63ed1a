"""Known faults of log-probs and ratios."""

import functools

import batches
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest
import tiny

import arl
from arl.rollout import engine, local, sampler, strategies
from arl.train import build, forward

pytestmark = pytest.mark.usefixtures('compiled_once')
HOT = (1.0, 0.5, 1.5)


def test_26_every_scorer_has_the_temperature_of_the_rollouts():
  logits = np.zeros((1, 4, 3), np.float32)
  logits[0, 0] = [2, 1, 0]
  params = {'logits': logits}
  others = {'ref_logp': params, 'teacher_logp': params}
  batch, _ = plain.scored(
    plain.table(3), params, plain.said([1]), temperature=0.5, others=others
  )
  for name in ('old_logp', *others):
    np.testing.assert_allclose(batch[name][0, 1], -2.14293, atol=1e-5)
  run = forward.make(plain.table(3), temperature=0.5, chunk=0)
  made = run(params, plain.said([1]), frozenset({'logp', 'entropy'}))
  np.testing.assert_allclose(made['logp'][0, 1], -2.14293, atol=1e-5)
  p = np.exp(np.array([4.0, 2, 0])) / np.exp([4.0, 2, 0]).sum()
  np.testing.assert_allclose(made['entropy'][0, 1], -p @ np.log(p), rtol=1e-5)
  cold, _ = plain.scored(plain.table(3), params, plain.said([1]))
  ratio = np.exp(cold['old_logp'][0, 1] + 2.14293)
  np.testing.assert_allclose(ratio, 2.08616, atol=1e-4)  # would be seen


@pytest.fixture(scope='module')
def policy():
  """A small policy and an engine that samples from it."""
  model, params = plain.uneven()
  return model, params, local.LocalEngine(
    model, params, slots=4, context=32, seed=3
  )  # fmt: skip


@pytest.mark.parametrize('temperature', HOT)
def test_26_on_policy_the_ratio_is_one_at_any_temperature(policy, temperature):
  model, params, sampling_engine = policy
  sampling = engine.Sampling(temperature=temperature)
  limits = plain.ROOMY._replace(context=32, turn_tokens=9)
  plan = strategies.Plan(4, sampling, limits, (0,))
  rolled = strategies.multi_turn(
    sampling_engine, plain.env('3'), plain.chat(), [plain.task('6 7')], plan
  )
  batch = plain.columns(rolled, width=32)
  made, agreed = plain.scored(model, params, batch, temperature=temperature)
  assert agreed['mismatch/max'] < 1e-4
  told = sampling_engine.score([e.tokens.tolist() for e in rolled], temperature)
  for row, one in enumerate(rolled):
    ours = made['old_logp'][row, : len(one.tokens)][one.mask]
    np.testing.assert_allclose(told[row][one.mask], ours, atol=1e-4)
  if temperature != 1:
    _, off = plain.scored(model, params, batch)
    assert off['mismatch/max'] > 0.01  # would be seen


P = np.log([0.5, 0.3, 0.15, 0.05])


def test_28_a_truncated_sampler_says_what_it_sampled_from():
  keys = sampler.fold(0, np.arange(200)[:, None])
  ids, logp = jax.jit(sampler.choose, static_argnums=2)(
    jnp.broadcast_to(jnp.float32(P), (200, 4)),
    keys,
    sampler.Rule(False, True),
    jnp.float32(1),
    jnp.float32(0.8),
    jnp.int32(0),
  )
  assert set(ids.tolist()) == {0, 1}
  np.testing.assert_allclose(logp[ids == 1], -0.98083, atol=1e-5)
  np.testing.assert_allclose(np.exp(-1.20397 + 0.98083), 0.8, atol=1e-4)


@hypothesis.settings(deadline=None, max_examples=30)
@hypothesis.given(
  st.floats(0.01, 1.0), st.integers(0, 50), st.floats(-0.5, 2.0)
)
def test_28_no_run_trains_on_a_truncated_distribution(top_p, top_k, hot):
  config = tiny.config(
    'some/folder',
    rollout={'top_p': top_p, 'top_k': top_k, 'temperature': hot},
  )
  if (top_p, top_k) == (1.0, 0) and hot > 0:
    build.check(config)
    return
  with pytest.raises(ValueError, match='training needs temperature > 0'):
    build.check(config)


def test_28_a_rule_that_nothing_reads_is_no_setting():
  config = tiny.config('some/folder')
  config.rollout.unlock()
  config.rollout['min_p'] = 0.1
  with pytest.raises(ValueError, match="config.rollout has no key 'min_p'"):
    build.check(config)


CLOSE = [8, 7.9375, 3, 1.5]
EXACT = [-0.66663, -0.72913, -5.66663, -7.16663]


@pytest.mark.parametrize('token', range(4))
def test_29_log_probs_of_bfloat16_logits_are_float32(token):
  logits = jnp.zeros((1, 4, 4), jnp.bfloat16)
  logits = logits.at[0, 0].set(jnp.array(CLOSE, jnp.bfloat16))
  batch, _ = plain.scored(
    plain.table(4), {'logits': logits}, plain.said([token])
  )
  assert batch['old_logp'].dtype == jnp.float32
  np.testing.assert_allclose(batch['old_logp'][0, 1], EXACT[token], atol=1e-5)


def test_29_counts_and_sums_do_not_stall():
  one = plain.made([1] * 4100, [0] + [1] * 4099)
  batch = plain.columns([one])
  batch['rewards'] = np.where(batch['mask'], 1, 0).astype(np.float32)
  method = arl.method(arl.make('reinforce.reinforce')._replace(
    aggregate=arl.make('grpo.dapo').aggregate
  ))  # fmt: skip
  credits = jax.jit(method.credit)(batch)
  assert credits['policy']['advantage'][0, 1] == 4099
  assert credits['policy']['advantage'][0, -400] == 400
  weights = method.weigh(batch, credits)['policy']
  assert weights.dtype == jnp.float32
  np.testing.assert_allclose(weights[0, 1], 1 / 4099, rtol=1e-6)


def test_29_with_the_same_weights_the_ratio_is_exactly_one():
  """The old pass is the training pass: nothing clips on noise."""
  model, params = plain.uneven(dtype='bfloat16')
  rolled = [
    plain.made([1, *ids], [0, *[1] * len(ids)], rewards=i, logp=[0, *logp])
    for i, (ids, logp) in enumerate(
      [([3, 4, 5], [-1, -2, -1]), ([6, 7], [-3, -1]), ([8], [-2])]
    )
  ]
  batch, agreed = plain.scored(model, params, plain.columns(rolled))
  kinds = {'float32', 'int32', 'bool'}
  assert {str(x.dtype) for x in jax.tree.leaves(batch)} <= kinds
  method = arl.method(arl.make('grpo.dapo'))
  credits = jax.jit(method.credit)(batch)
  _, metrics = plain.update(
    params, batch, method, credits,
    run=forward.make(model, temperature=1.0, chunk=0),
  )  # fmt: skip
  assert float(metrics['policy/ratio']) == 1
  assert float(metrics['policy/clip_fraction']) == 0
  assert float(metrics['policy/kl']) == 0
  assert agreed['mismatch/max'] > 0.1  # the engine's, told apart from it


def test_30_a_huge_ratio_off_the_mask_costs_nothing():
  batch = plain.said([1, 1], width=3)
  batch['mask'] = np.array([[False, True, False]])
  batch['old_logp'] = np.float32([[0, -1, -101]])
  credits = {'policy': {'advantage': np.float32([[0, 1, 0]])}}
  method = arl.method(arl.make('grpo.dapo'))
  weights = method.weigh(batch, credits)

  @jax.jit
  @jax.value_and_grad
  def loss(logp):
    return method.loss({**batch, 'logp': logp}, credits, weights)[0]

  value, slope = loss(jnp.float32([[0, -1, -1]]))
  assert float(value) == -1 and slope.tolist() == [[0, -1, 0]]


WATCHED = ('grpo.grpo', 'ppo.ppo', 'sequence.gspo')


@functools.cache
def whole(name):
  """columns -> what a method makes of them: credit, weights, loss, gradient."""
  method = arl.method(arl.make(name))

  @jax.jit
  def run(columns):
    credits = method.credit(columns)
    weights = method.weigh(columns, credits)
    loss = lambda logp: method.loss({**columns, 'logp': logp}, credits, weights)
    return (jax.value_and_grad(loss, has_aux=True)(columns['logp']), credits)

  return run


@functools.cache
def clean():
  made = batches.batch(batches.sequences(0))
  return made, {name: whole(name)(made) for name in WATCHED}


BAD = (np.nan, np.inf, -np.inf, 1e10, -1e10)


@hypothesis.settings(deadline=None, max_examples=25)
@hypothesis.given(
  st.sampled_from(WATCHED),
  st.lists(
    st.tuples(
      st.sampled_from(batches.FLOATS),
      st.sampled_from(BAD),
      st.floats(0.2, 1.0),
    ),
    min_size=1,
    max_size=8,
  ),
  st.integers(0, 9),
)
def test_30_masked_slots_may_hold_anything(name, planted, seed):
  """Loss, gradient, credit and metrics stay as they are, bit for bit."""
  columns, want = clean()
  rng, columns = np.random.default_rng(seed), dict(columns)
  for column, bad, share in planted:
    x = columns[column]
    off = ~columns['mask'] & (rng.random(columns['mask'].shape) < share)
    off = off.reshape(*off.shape, *[1] * (x.ndim - 2))
    columns[column] = np.where(off, np.float32(bad), x)
  for a, b in zip(
    jax.tree.leaves(whole(name)(columns)),
    jax.tree.leaves(want[name]),
    strict=True,
  ):
    assert np.all(np.isfinite(b))
    np.testing.assert_array_equal(a, b)
