"""Known faults of denominators: what a mean is over, and who divides."""

import functools
import math

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import optax
import plain
import pytest

import arl
from arl import episode
from arl.evaluate import behavior
from arl.kernels import aggregations
from arl.methods import terms
from arl.train import context, optimizers, sharding, state, step

pytestmark = pytest.mark.usefixtures('compiled_once')
# What every sequence of tokens weighs the same in, and what every token does.
MEANS = {
  'tokens': aggregations.token_mean,
  'sequences': aggregations.sequence_mean,
}
NOTHING = {'imitation': {}}


@functools.cache
def take(mean, microbatch, mesh, parts=1):
  """A compiled step of the planted policy, and its start."""
  method = arl.method(terms.imitation(1.0, MEANS[mean]))
  placed = sharding.make_mesh(data=mesh, context=parts)
  forward = context.split(plain.planted, sharding.layout(placed))
  tx = optax.sgd(1.0)
  update = step.make_train_step(
    forward, method, tx, microbatch=microbatch, mesh=placed
  )

  def run(rows):
    batch = plain.losses(rows, of=8, width=12)
    batch = {name: batch[name] for name in ('mask', 'rewards', 'seq')}
    start = sharding.shard_params(state.create(jnp.float32(1), tx), placed)
    now, metrics = update(start, sharding.shard_rows(batch, placed), NOTHING)
    return float(metrics['loss/total']), 1 - float(now.params)

  return run


TWO = [[3, 3], [1] * 6]
RANKS = [[2] * 3, [1] * 9]


@pytest.mark.parametrize('microbatch, mesh', [(1, 1), (2, 2), (4, 4), (8, 1)])
def test_21_a_mean_is_of_the_update_not_of_its_pieces(microbatch, mesh):
  found = take('tokens', microbatch, mesh)
  np.testing.assert_allclose(found(TWO), [1.5, 1.5], rtol=1e-6)
  np.testing.assert_allclose(found(RANKS), [1.25, 1.25], rtol=1e-6)
  with_nothing = [TWO[0], [], [], [], TWO[1]]  # a piece without a token
  np.testing.assert_allclose(found(with_nothing), [1.5, 1.5], rtol=1e-6)


@pytest.mark.parametrize('mean, want', [('tokens', 1.25), ('sequences', 1.5)])
def test_21_sequences_cut_over_devices_have_one_denominator(mean, want):
  found = take(mean, 2, 2, parts=2)(RANKS)
  np.testing.assert_allclose(found, [want, want], rtol=1e-6)


rows = st.lists(
  st.lists(st.floats(-3, 3, width=16), max_size=10), min_size=1, max_size=8
)


@hypothesis.settings(deadline=None, max_examples=25)
@hypothesis.given(
  rows,
  st.sampled_from([*MEANS]),
  st.sampled_from([(1, 1), (2, 1), (2, 2), (4, 4), (8, 8)]),
)
def test_21_any_split_is_the_whole(told, mean, split):
  every = [x for row in told for x in row]
  means = [math.fsum(row) / len(row) for row in told if row]
  want = every if mean == 'tokens' else means
  want = math.fsum(want) / len(want) if want else 0.0
  found = take(mean, *split)(told)
  np.testing.assert_allclose(found, [want, want], atol=2e-6)


def trimmed(kl=0.0):
  """What is 2 on each token, without those of truncated sequences."""
  base = arl.Objective(
    advantage=lambda rewards: jnp.ones_like(rewards),
    surrogate=lambda logp: logp,
    aggregate=aggregations.token_mean,
    terms=(terms.kl(kl),) if kl else (),
  )
  return arl.method(arl.make('filters.finished', base=base))


def lengths(*truncated):
  """Sequences of 3 and 5 tokens whose losses are 2, and their episodes."""
  batch = plain.losses([[2] * 3, [2] * 5], of=2)
  batch['truncated'] = np.broadcast_to(
    np.array(truncated)[:, None], batch['mask'].shape
  )
  batch['ref_logp'] = np.full(batch['mask'].shape, -1, np.float32)
  return batch


def after(method, batch, tx=None):
  """One step from 1: (state, metrics)."""
  credits = jax.jit(method.credit)(batch)
  return plain.update(
    jnp.float32(1), batch, method, credits, run=plain.planted, tx=tx
  )


def test_23_a_row_left_out_leaves_the_denominator_too():
  now, metrics = after(trimmed(), lengths(False, True))
  np.testing.assert_allclose(metrics['loss/total'], 2, rtol=1e-6)
  np.testing.assert_allclose(now.params, 1 - 2, rtol=1e-6)


def test_23_the_kl_leaves_out_the_same_rows():
  batch = lengths(False, True)
  _, metrics = after(trimmed(kl=0.5), batch)
  drift = -1 - -2.0  # ref_logp - logp on each token
  want = 0.5 * (math.exp(drift) - 1 - drift)
  np.testing.assert_allclose(metrics['loss/kl'], want, rtol=1e-5)


def test_23_where_all_is_left_out_nothing_moves():
  now, metrics = after(trimmed(), lengths(True, True), optax.adam(0.1))
  assert float(metrics['loss/total']) == 0
  assert float(metrics['train/grad_norm']) == 0
  assert float(now.params) == 1 and int(now.updates) == 0
  assert not any(np.any(x) for x in jax.tree.leaves(now.opt_state))


def test_23_what_is_left_out_still_counts_as_long():
  told = [
    plain.made([1] * 4, [0, 1, 1, 1]),
    plain.made([1] * 6, [0, 1, 1, 1, 1, 1])._replace(status=episode.MAX_TOKENS),
  ]
  found = behavior.measure(told)
  assert found['length/truncated'] == 0.5
  np.testing.assert_allclose(found['length/tokens_p95'], 4.9)


SIZES = [2, 4]
RATIOS = [[0.1, 0.3], [-0.1] * 4]


@functools.cache
def gspo(low, high):
  method = arl.method(arl.make('sequence.gspo', low=low, high=high))

  @jax.jit
  def run(batch, credits):
    weights = method.weigh(batch, credits)
    loss = lambda logp: method.loss(
      {**batch, 'logp': logp}, credits, weights
    )[0]  # fmt: skip
    return jax.value_and_grad(loss)(batch['logp'])

  return run


def sequences(ratios, holes=0, width=20):
  """A batch of these log-ratios with observations between, and its credit."""
  made = []
  for number, each in enumerate(ratios):
    mask = [0, *([1] + [0] * holes) * len(each)]
    made.append(plain.made([1] * len(mask), mask, id=str(number)))
  batch = plain.columns(made, rows=2, width=width)
  noise = np.full(batch['mask'].shape, 50, np.float32)
  batch['old_logp'] = np.full(batch['mask'].shape, -60, np.float32)
  batch['logp'] = batch['old_logp'] + noise
  for i, each in enumerate(ratios):
    batch['logp'][i, batch['mask'][i]] = np.float32(each) - 60
  sign = np.where(np.arange(2)[:, None] == 0, 1, -1)
  advantage = np.where(batch['mask'], sign, 0).astype(np.float32)
  return batch, {'policy': {'advantage': advantage}}


def test_24_a_sequence_has_one_ratio_and_one_weight():
  loss, slope = gspo(9.0, 9.0)(*sequences(RATIOS))
  np.testing.assert_allclose(loss, -0.15828, atol=1e-5)
  s = np.exp([0.2, -0.1])
  per_token = np.array([-s[0] / 2 / 2, s[1] / 2 / 4])
  np.testing.assert_allclose(np.max(np.abs(slope), 1), np.abs(per_token), 1e-4)


def test_24_it_is_the_ratio_of_the_sequence_that_is_clipped():
  batch = sequences(RATIOS)
  loss, slope = gspo(0.1, 0.1)(*batch)
  want = -(1.1 - math.exp(-0.1)) / 2  # one token alone is within, at 0.1
  np.testing.assert_allclose(loss, want, atol=1e-5)
  assert not np.any(slope[0]) and np.any(slope[1])


@hypothesis.settings(deadline=None, max_examples=25)
@hypothesis.given(
  st.lists(st.floats(-1, 1, width=16), min_size=1, max_size=3),
  st.lists(st.floats(-1, 1, width=16), min_size=1, max_size=3),
  st.integers(1, 3),
  st.integers(0, 2),
)
def test_24_repeated_tokens_and_holes_change_nothing(one, two, times, holes):
  once, _ = gspo(0.2, 0.2)(*sequences([one, two], width=32))
  more, _ = gspo(0.2, 0.2)(
    *sequences([one * times, two], holes=holes, width=32)
  )
  np.testing.assert_allclose(more, once, atol=1e-5)


def two_sided(params, batch, want):
  """Row 0 has the gradient (3, 0), row 1 (0, 4), as a mean over both."""
  del want
  side = jnp.where(batch['rewards'] == 3, params[0], params[1])
  return {'logp': -2 * side * batch['rewards']}


def test_25_the_gradient_of_the_update_is_clipped():
  tx = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(1.0))
  batch = plain.losses([[3], [4]], of=2)
  now, metrics = plain.update(
    jnp.zeros(2), batch, arl.method(terms.imitation()), NOTHING,
    run=two_sided, microbatch=1, tx=tx,
  )  # fmt: skip
  np.testing.assert_allclose(now.params, [-0.6, -0.8], rtol=1e-6)
  np.testing.assert_allclose(metrics['train/grad_norm'], 5, rtol=1e-6)


ADAMW = {
  'lr': 0.1,
  'warmup': 2,
  'decay': 0,
  'b1': 0.9,
  'b2': 0.99,
  'weight_decay': 0.0,
  'max_norm': 1.0,
}


def counts(tree):
  """The counts in the state of an optimizer."""
  return {int(x) for x in jax.tree.leaves(tree) if x.dtype == jnp.int32}


def test_25_a_schedule_counts_updates_not_microbatches():
  batch = plain.losses([[3], [4]], of=2)
  now, _ = plain.update(
    jnp.ones(2), batch, arl.method(terms.imitation()), NOTHING,
    run=two_sided, microbatch=1, tx=optimizers.adamw(**ADAMW), count=2,
  )  # fmt: skip
  assert counts(now.opt_state) == {2}


@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf])
def test_25_what_is_not_finite_never_reaches_the_optimizer(bad):
  batch = plain.losses([[3], [bad]], of=2)
  now, metrics = plain.update(
    jnp.ones(2), batch, arl.method(terms.imitation()), NOTHING,
    run=two_sided, microbatch=1, tx=optimizers.adamw(**ADAMW), count=2,
  )  # fmt: skip
  assert int(metrics['train/nonfinite']) == 1
  assert (int(now.updates), int(now.skipped)) == (0, 2)
  assert counts(now.opt_state) == {0}
  np.testing.assert_array_equal(now.params, [1, 1])
  moments = [x for x in jax.tree.leaves(now.opt_state) if x.ndim]
  assert not any(np.any(x) for x in moments)
