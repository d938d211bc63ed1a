"""Rows over devices: what is sent between them, and what is refused.

That losses and gradients stay is in test_partition.
"""

import re

import jax
import numpy as np
import optax
import pytest
import tiny

from arl.methods import compose, grpo
from arl.models import functional, sizes, transformer
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
  found = gathered(run.lower(*given).compile().as_text())
  assert max(found) == ROWS * WIDTH * KEYS < ROWS * WIDTH * HIDDEN


def test_experts_that_are_replayed():
  mixture = sizes.Mixture(4, 2, 8)
  run, (now, columns, credits) = update(mixture)
  rng = np.random.default_rng(0)
  given = np.argsort(rng.random((ROWS, WIDTH, 2, 4)), -1)[..., :2]
  columns = {**columns, routing.COLUMN: given.astype(np.int32)}
  placed = sharding.shard_rows(columns, sharding.make_mesh(**MESH))
  _, facts = run(now, placed, credits)
  assert np.isfinite(facts['loss/total'])


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
