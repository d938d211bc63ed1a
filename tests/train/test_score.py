import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import tiny

from arl.methods import compose, ppo
from arl.models import heads, transformer
from arl.train import forward, score, sharding, state, step

NEEDS = frozenset({'old_value', 'ref_logp'})
ROWS, MICROBATCH = 8, 4
CLOSE = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)


def mesh():
  return sharding.make_mesh(data=1, fsdp=1)


@functools.cache
def policy(dtype):
  model = transformer.make(tiny.size(), dtype)
  params = heads.with_value_head(model.init(jax.random.key(0)), 16)
  head = {'weight': jnp.linspace(-1, 1, 16), 'bias': jnp.float32(0.5)}
  return forward.make(model, temperature=0.7, chunk=0), {
    **params,
    'value_head': head,
  }


def columns(count):
  return tiny.columns(tiny.episodes(2, 4)[:count], rows=ROWS)


@pytest.fixture(scope='module')
def scorer():
  run, _ = policy('float32')
  return score.make_score(
    run, NEEDS, others={'ref_logp': run}, microbatch=MICROBATCH, mesh=mesh()
  )


@pytest.fixture(scope='module')
def direct():
  run, _ = policy('float32')
  want = frozenset({'logp', 'entropy', 'value'})
  return jax.jit(functools.partial(run, want=want))


def test_scores_are_those_of_the_forward_pass(scorer, direct):
  _, params = policy('float32')
  reference = jax.tree.map(lambda x: 0.9 * x, params)
  batch = columns(8)
  made = scorer(params, {'ref_logp': reference}, batch)
  now, then = direct(params, batch), direct(reference, batch)
  assert made.keys() == {'old_logp', 'old_entropy', 'old_value', 'ref_logp'}
  for name in ('logp', 'entropy', 'value'):
    assert made[f'old_{name}'].dtype == jnp.float32
    CLOSE(made[f'old_{name}'], now[name], err_msg=name)
  CLOSE(made['ref_logp'], then['logp'])
  assert np.abs(now['logp'] - then['logp'])[batch['mask']].min() > 1e-5


def test_rows_without_a_token_are_not_scored(scorer, direct):
  _, params = policy('float32')
  batch = columns(8)
  batch['mask'][:MICROBATCH] = False
  made = scorer(params, {'ref_logp': params}, batch)
  CLOSE(made['old_logp'][4:], direct(params, batch)['logp'][4:])
  assert not np.any(made['old_logp'][:4]) and not np.any(made['old_value'][:4])
  assert scorer._cache_size() == 1


def test_microbatches_without_a_token_are_not_computed():
  calls = []

  def run(params, columns, want):
    jax.debug.callback(lambda: calls.append(1))
    return dict.fromkeys(want, params + columns['rewards'])

  one = jnp.float32([[1]])
  scorer = score.make_score(
    run, frozenset(), others={}, microbatch=1, mesh=mesh()
  )
  for filled in ([0, 1, 2], [1, 6], [], range(8)):
    batch = columns(8)
    batch['mask'][[row not in filled for row in range(ROWS)]] = False
    calls.clear()
    made = jax.block_until_ready(scorer(one, {}, batch))
    jax.effects_barrier()
    assert len(calls) == len(filled)
    live = batch['mask'].any(axis=1)[:, None]
    CLOSE(made['old_logp'], np.where(live, 1 + batch['rewards'], 0))
  assert scorer._cache_size() == 1


GAP = compose.Term(
  'gap',
  (('loss', lambda logp, old_logp: jnp.abs(logp - old_logp)),),
  lambda mask: jnp.where(mask, 1.0, 0.0),
)


def test_the_ratio_is_exactly_one_while_the_weights_stand():
  # In bfloat16, where the two passes would differ most.
  run, params = policy('bfloat16')
  objective = ppo.ppo(entropy_coef=0.01)
  method = compose.method(objective, GAP)
  scorer = score.make_score(
    run,
    method.needs,
    others={'ref_logp': run},
    microbatch=MICROBATCH,
    mesh=mesh(),
  )
  batch = columns(7)
  batch.update(scorer(params, {'ref_logp': params}, batch))
  tx = optax.sgd(0.0)
  update = step.make_train_step(
    run, method, tx, microbatch=MICROBATCH, mesh=mesh()
  )
  now = state.create(jax.tree.map(jnp.copy, params), tx)
  credits = jax.jit(method.credit)(batch)
  for _ in range(2):
    now, metrics = update(now, batch, credits)
    assert float(metrics['loss/gap']) == 0
    assert float(metrics['policy/kl']) == 0
    assert float(metrics['policy/clip_fraction']) == 0
    assert float(metrics['train/grad_norm']) > 0


def test_agreement_by_hand():
  mask = jnp.array([[False, True, True], [True, False, True]])
  nothing = jnp.float32(jnp.nan)
  made = score.agreement(
    {
      'mask': mask,
      'old_logp': jnp.array([[nothing, -1.0, -2.0], [-3.0, 9.0, -4.0]]),
      'rollout_logp': jnp.array([[0.0, -1.5, -2.0], [-3.25, 0.0, -4.0]]),
      'old_entropy': jnp.array([[7.0, 1.0, 2.0], [3.0, nothing, 4.0]]),
      'ref_logp': jnp.array([[0.0, -1.0, -2.0], [-3.0, 0.0, -5.0]]),
    }
  )
  want = {
    'mismatch/max': 0.5,
    'mismatch/mean': 0.75 / 4,
    'mismatch/correlation': np.corrcoef(
      [-1.0, -2.0, -3.0, -4.0], [-1.5, -2.0, -3.25, -4.0]
    )[0, 1],
    'mismatch/probability': np.corrcoef(
      np.exp([-1.0, -2.0, -3.0, -4.0]), np.exp([-1.5, -2.0, -3.25, -4.0])
    )[0, 1],
    'train/entropy': 2.5,
    'train/ref_kl': np.exp(-1) / 4,  # exp(-1) - (-1) - 1 on one token of four
  }
  assert made.keys() == want.keys()
  for name, value in want.items():
    np.testing.assert_allclose(made[name], value, rtol=1e-6, err_msg=name)
