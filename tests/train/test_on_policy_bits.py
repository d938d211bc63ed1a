"""Before anything moved an update sees the very log-probs that were scored."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from arl import levels
from arl.methods import compose, grpo
from arl.models import sizes, transformer
from arl.train import forward, score, sharding, state, step

ROWS, WIDTH = 8, 96
METHOD = compose.method(grpo.dapo())


def columns():
  rng = np.random.default_rng(0)
  place = np.broadcast_to(np.arange(WIDTH), (ROWS, WIDTH))
  length = rng.integers(20, WIDTH, (ROWS, 1))
  row = np.broadcast_to(np.arange(ROWS)[:, None], place.shape)
  there = place < length
  made = {
    'tokens': np.where(there, rng.integers(0, 60, place.shape), 0),
    'positions': np.where(there, place, 0),
    'segments': there.astype(int),
    'mask': there & (place > 8),
    'rewards': (place == length - 1) * (row % 3 == 0),
    'rollout_logp': np.zeros(place.shape),
  }
  kinds = {'mask': bool, 'rewards': jnp.float32, 'rollout_logp': jnp.float32}
  level = lambda ids, num: levels.level(np.ascontiguousarray(ids), num)
  return {
    **{n: jnp.asarray(x, kinds.get(n, jnp.int32)) for n, x in made.items()},
    'seq': level(row, ROWS),
    'group': level(row // 4, 2),
    'turn': level(row, ROWS),
  }


@pytest.mark.parametrize('remat', ['none', 'attention'])
def test_the_ratio_is_one_and_nothing_is_clipped(remat):
  mesh = sharding.make_mesh()
  model = transformer.make(sizes.quick(60), remat=remat)
  params = jax.tree.map(lambda x: 2 * x, model.init(jax.random.key(0)))
  run = forward.make(model, temperature=1.0, chunk=0)
  on = {'microbatch': 4, 'mesh': mesh}
  tx = optax.sgd(0.1)
  batch = columns()
  batch |= score.make_score(run, METHOD.needs, others={}, **on)(
    params, {}, batch
  )
  assert np.ptp(batch['old_logp'][batch['mask']]) > 1
  credits = METHOD.credit(batch)
  update = step.make_train_step(run, METHOD, tx, **on)
  _, metrics = update(state.create(params, tx), batch, credits)
  assert metrics['train/grad_norm'] > 0
  assert metrics['policy/kl'] == 0 and metrics['policy/clip_fraction'] == 0
  np.testing.assert_allclose(metrics['policy/ratio'], 1, rtol=1e-6)
