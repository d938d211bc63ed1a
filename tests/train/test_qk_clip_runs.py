"""QK-clip in an update: what the weights are after it, and what is logged."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import tiny

from arl.methods import compose, terms
from arl.models import transformer
from arl.train import forward as forward_lib
from arl.train import loop, qk_clip, sharding, state, step

METHOD = compose.method(terms.imitation())
TAU = 0.25


def updated(rate, **changes):
  """(model, columns, start, state, metrics) of an update clipped at TAU."""
  model = transformer.make(tiny.size())
  # Of the size of Muon's weights, not of the small ones of a fresh model.
  start = jax.tree.map(lambda x: 3 * x, model.init(jax.random.key(0)))
  mesh = sharding.make_mesh(data=1, fsdp=1)
  tx = optax.sgd(rate)
  clip = qk_clip.make(model, tau=TAU, frozen='', microbatch=2, mesh=mesh)
  forward = forward_lib.make(model, temperature=1.0, chunk=0)
  update = step.make_train_step(
    forward, METHOD, tx, microbatch=2, mesh=mesh, **{'clip': clip, **changes}
  )
  columns = tiny.columns(tiny.episodes(3, 2), rows=6)
  now = state.create(jax.tree.map(jnp.copy, start), tx)
  now, metrics = update(now, columns, {'imitation': {}})
  return model, columns, start, now, metrics


def largest(model, params, columns):
  seen = (columns[name] for name in ('tokens', 'positions', 'segments'))
  return float(model.attention_maxima(params, *seen).max())


def test_the_weights_after_the_update_are_clipped():
  model, columns, _, free, _ = updated(0.5, clip=None)
  _, _, start, now, metrics = updated(0.5)
  over = largest(model, free.params, columns)
  assert over > TAU
  np.testing.assert_allclose(metrics['train/attention_max'], over, rtol=1e-5)
  after = largest(model, now.params, columns)
  np.testing.assert_allclose(after, TAU, rtol=1e-5)
  pick = lambda params: params['layers']['0'].pop('attention')
  attention, expected = pick(now.params), pick(free.params)
  for part in ('value', 'out'):
    tiny.same(attention[part], expected[part])
  tiny.same(now.params, free.params)


def test_an_update_that_is_not_applied_is_not_clipped():
  _, _, start, now, metrics = updated(np.inf)
  assert int(metrics['train/nonfinite']) == 1
  tiny.same(now.params, start)


def test_a_config_asks_for_it(model_folder, tmp_path):
  config = tiny.config(
    model_folder, steps=1, updates={'qk_clip': 1e-3},
    eval={'every': 9, 'tasks': 1, 'final_tasks': 1},
  )  # fmt: skip
  loop.train(config, tmp_path)
  (row,) = tiny.rows(tmp_path)
  assert row['train/attention_max'] > 0


def test_a_negative_bound_is_refused(model_folder, tmp_path):
  config = tiny.config(model_folder, updates={'qk_clip': -1.0})
  with pytest.raises(ValueError, match='qk_clip: tau is -1.0'):
    loop.train(config, tmp_path)
