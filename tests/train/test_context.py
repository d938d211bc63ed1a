"""Rows over devices: what is sent between them, and what is refused.

That losses and gradients stay is in test_partition.
"""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import tiny

from arl.methods import compose, grpo
from arl.models import critics, functional, heads, sizes, transformer
from arl.train import build, context, forward, routing, sharding, state, step

MESH = {'context': 4}
METHOD = compose.method(grpo.grpo(kl_coef=0))
ROWS, WIDTH, HIDDEN = 4, 16, 24
KEYS = 8  # numbers of a token's keys


def update(mixture=None):
  """(an update, its arguments) on rows over four devices."""
  shape = tiny.size(16)._replace(
    width=HIDDEN, heads=3, kv_heads=1, head_dim=KEYS, layers=2, mixture=mixture
  )
  made = transformer.make(shape, remat='layer')
  mesh = sharding.make_mesh(**MESH)
  lying = sharding.layout(mesh)
  made = functional.placed(made, lying)
  run = context.split(forward.make(made, temperature=1.0, chunk=8), lying)
  tx = optax.sgd(0.5)
  columns = tiny.columns(tiny.episodes(1, 4), rows=ROWS, width=WIDTH)
  columns['old_logp'] = columns['rollout_logp']
  now = sharding.shard_params(
    state.create(made.init(jax.random.key(0)), tx), mesh
  )
  columns = sharding.shard_rows(columns, mesh)
  made_step = step.make_train_step(run, METHOD, tx, microbatch=ROWS, mesh=mesh)
  return made_step, (now, columns, METHOD.credit(columns))


def gathered(text):
  """The sizes of what all-gathers of a compiled program give."""
  shapes = re.findall(r'\w+\[([\d,]*)\]\S* all-gather', text)
  return [int(np.prod([int(n) for n in x.split(',') if n])) for x in shapes]


def test_nothing_is_gathered_but_keys_and_values():
  run, given = update()
  now, *columns = given
  lowered = run.gradient.lower(now.params, *columns, {})
  found = gathered(lowered.compile().as_text())
  assert max(found) == ROWS * WIDTH * KEYS < ROWS * WIDTH * HIDDEN


@functools.cache
def read(axes):
  """Every column that a forward pass can make, on a mesh."""
  mixture = sizes.Mixture(4, 2, 8)
  model = transformer.make(
    tiny.size(16)._replace(width=HIDDEN, layers=2, mixture=mixture)
  )
  mesh = sharding.make_mesh(**dict(axes))
  lying = sharding.layout(mesh)
  model = functional.placed(model, lying)
  run = forward.make(model, temperature=1.0, chunk=8, teacher=model)
  run = context.split(run, lying)
  params, other = (model.init(jax.random.key(i)) for i in range(2))
  head = {**heads.with_value_head(params, HIDDEN), 'norm': other['norm']}
  head = critics.with_trunk(head)
  head[functional.VALUE_HEAD]['weight'] = jnp.linspace(-1, 1, HIDDEN)
  rng = np.random.default_rng(0)
  chosen = np.argsort(rng.random((ROWS, WIDTH, 2, 4)), -1)[..., :2]
  episodes = tiny.episodes(1, 4, longest=16)
  columns = tiny.columns(episodes, rows=ROWS, width=WIDTH)
  columns[routing.COLUMN] = chosen.astype(np.int32)
  columns['old_ids'] = rng.integers(0, 16, (ROWS, WIDTH, 3)).astype(np.int32)
  placed = [sharding.shard_params(x, mesh) for x in (head, other)]
  columns = sharding.shard_rows(columns, mesh)
  pass_ = jax.jit(lambda head, other, c: run(head, c, WANT, taught=other))
  return jax.device_get(pass_(*placed, columns)), columns


WANT = heads.COLUMNS - {'value_logits'} | {'rerouted', 'own_logp'}


@pytest.mark.parametrize(
  'axes', [(('context', 4),), (('context', 2), ('fsdp', 2), ('tensor', 2))]
)
def test_every_column_is_that_of_one_device(axes, compiled_once):
  del compiled_once
  made, columns = read(axes)
  wanted, _ = read(())
  assert made.keys() == WANT
  mask = np.asarray(columns['mask'])
  assert mask[:, WIDTH // 2].any() and not mask[:, 0].any()
  for name, x in wanted.items():
    assert np.any(x[mask] != 0), name
    np.testing.assert_allclose(made[name], x, atol=2e-5, err_msg=name)


@pytest.mark.parametrize(
  'blocks, message',
  [
    ({'mesh': {'context': 5}}, 'does not divide the 24 tokens of a row'),
    (
      {'mesh': {'context': 2}, 'updates': {'prefixes': 'shared'}},
      'is no row of tokens; set that to',
    ),
  ],
)
def test_rows_that_cannot_be_split(model_folder, blocks, message):
  with pytest.raises(ValueError, match=message):
    build.check(tiny.config(model_folder, **blocks))
