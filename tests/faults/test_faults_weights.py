"""Known faults of samplers: old weights, adapters that never arrive."""

import functools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest
import served
from safetensors import numpy as safetensors

from arl.models import (
  lora,
  sizes,
  transformer,
)
from arl.rollout import engine, local
from arl.train import (
  batch,
  checkpoint,
  engines,
  export,
  sync,
)
from experiments.studies import pretend

pytestmark = pytest.mark.usefixtures('compiled_once')
PLAIN = engine.Sampling()


@pytest.fixture(scope='module')
def policy():
  """A model, its weights, and an engine that holds others by turns."""
  model, params = plain.uneven()
  return model, params, local.LocalEngine(
    model, params, slots=2, context=32, seed=3
  )  # fmt: skip


def scaled(params, factor):
  return jax.tree.map(lambda x: x * jnp.asarray(factor, x.dtype), params)


PROMPT = (4, 5, 6, 7)


def test_35_nothing_of_old_weights_is_used_after_new_ones(policy):
  model, params, said = policy
  request = engine.Request(PROMPT, 6, (0, 0), session='s')
  said.set_params(params, 0)
  said.generate([request], PLAIN)
  (again,) = said.generate([request], PLAIN)
  assert again.cached > 0
  said.set_params(scaled(params, 1.05), 1)
  (after,) = said.generate([request], PLAIN)
  fresh = local.LocalEngine(
    model, scaled(params, 1.05), slots=2, context=32, seed=3
  )
  (want,) = fresh.generate([request], PLAIN)
  assert after.cached == 0 and set(after.versions.tolist()) == {1}
  np.testing.assert_array_equal(after.tokens, want.tokens)
  np.testing.assert_allclose(after.logp, want.logp, atol=1e-5)


@hypothesis.settings(deadline=None, max_examples=10)
@hypothesis.given(
  st.lists(
    st.one_of(
      st.floats(0.5, 2.0).map(lambda x: ('update', x)),
      st.integers(1, 3).map(lambda n: ('turn', n)),
    ),
    min_size=2,
    max_size=6,
  )
)
def test_35_after_any_updates_log_probs_are_of_the_weights_held(policy, story):
  """Turns of one session between updates, against a pass without a cache."""
  _, params, said = policy
  said.set_params(params, 0)
  row, version, updated = list(PROMPT), 0, True
  for what, x in story:
    if what == 'update':
      version, updated = version + 1, True
      said.set_params(scaled(params, x), version)
      continue
    request = engine.Request(tuple(row), x, (version,), session='one')
    (sample,) = said.generate([request], PLAIN)
    assert not (updated and sample.cached)
    (whole,) = said.score([[*row, *sample.tokens.tolist()]], 1.0)
    np.testing.assert_allclose(sample.logp, whole[len(row) :], atol=1e-4)
    assert set(sample.versions.tolist()) == {version}
    row, updated = [*row, *sample.tokens.tolist()], False


@pytest.mark.parametrize('mode', engine.PAUSES)
def test_35_in_every_pause_a_new_request_starts_from_nothing(policy, mode):
  model, params, _ = policy
  made = engines.InFlight(model, params, mode=mode, slots=2, context=32, seed=3)
  try:
    request = engine.Request(PROMPT, 6, (0, 0), session='s')
    made.generate([request], PLAIN)
    made.set_params(scaled(params, 1.05), 1)
    (after,) = made.generate([request], PLAIN)
    (whole,) = made.score([[*PROMPT, *after.tokens.tolist()]], 1.0)
  finally:
    made.close()
  assert after.cached == 0
  np.testing.assert_allclose(after.logp, whole[len(PROMPT) :], atol=1e-4)


SERVED = sizes.tiny(pretend.VOCAB)._replace(layers=1)
IDS = list(range(2, 40, 3))


@functools.cache
def weights(value):
  """Parameters of which a server that pretends looks at one number."""
  shapes = jax.eval_shape(transformer.make(SERVED).init, jax.random.key(0))
  made = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)
  made['norm']['scale'] = np.full_like(made['norm']['scale'], value)
  return made


PROBE = sync.Probe(
  IDS,
  lambda params: np.array(
    pretend.logp(float(params['norm']['scale'][0]), IDS), np.float32
  ),
  1e-4,
)


def publish(client, params, folder, **how):
  sync.disk(client, params, 1, size=SERVED, folder=folder, probe=PROBE, **how)


@pytest.mark.parametrize('mode', sync.MODES)
def test_35_a_server_forgets_or_the_run_stops(mode, tmp_path):
  request = engine.Request((1, 2, 3), 4, (0,))
  with served.serving() as (client, _, (model,)):
    client.generate([request], PLAIN)
    assert client.generate([request], PLAIN)[0].cached
    publish(client, weights(0.5), tmp_path, mode=mode)
    assert client.generate([request], PLAIN)[0].cached == 0

  def stale(body):  # takes the weights and keeps what the old ones computed
    pretend.Pretend._update_weights_from_disk(model, body)
    model.cache.add(('arl-probe', *IDS))
    return {'success': True}

  if mode == sync.IN_PLACE:  # there nothing is to be forgotten
    return
  with served.serving() as (client, _, (model,)):
    model._update_weights_from_disk = stale
    with pytest.raises(sync.SyncError, match='kept .* tokens of the probe'):
      publish(client, weights(0.5), tmp_path, mode=mode)


ADAPTER = {
  'kernel': jnp.eye(2),
  'lora': {
    'down': jnp.ones((2, 1)),
    'up': jnp.float32([[1, 0]]),
    'scale': jnp.float32(2),
  },
}


def test_36_the_sum_is_made_once():
  whole = lora.merged({'q': ADAPTER})
  kernel = whole['q']['kernel']
  np.testing.assert_array_equal(kernel.T, [[3, 2], [0, 1]])
  np.testing.assert_array_equal(jnp.float32([1, 0]) @ kernel, [3, 0])
  again = lora.merged(whole)['q']
  np.testing.assert_array_equal(again['kernel'], kernel)
  assert lora.ADAPTER not in again


@pytest.fixture(scope='module')
def adapted(policy):
  """The policy with adapters that have learnt something."""
  _, params, _ = policy
  made = lora.add(
    params, jax.random.key(0), rank=2, alpha=4.0, targets='.*/(query|up)'
  )
  learnt = lambda path, x: x + 0.3 if path[-1].key == 'up' else x
  return jax.tree_util.tree_map_with_path(
    lambda path, x: learnt(path, x) if 'lora' in str(path) else x, made
  )


def test_36_what_adapters_learn_reaches_the_sampler(policy, adapted):
  model, params, said = policy
  sums = export.policy_params(adapted)
  assert checkpoint.fingerprint(sums) != checkpoint.fingerprint(params)
  said.set_params(sums, 1)
  rolled = plain.roll_out(
    said,
    plain.env('3'),
    '6 7',
    limits=plain.ROOMY._replace(context=32, turn_tokens=9),
    samples=2,
  )
  columns = plain.columns(rolled, width=32)
  _, agreed = plain.scored(model, adapted, columns)
  assert agreed['mismatch/max'] < 1e-4
  _, base = plain.scored(model, params, columns)
  assert base['mismatch/max'] > 0.05  # the frozen base would be seen


def lost(model, body):  # success, and the new version, without the weights
  return model._updated(body)


def test_36_servers_get_the_sum_and_no_adapters(tmp_path):
  params = weights(0.5)
  made = lora.add(
    params, jax.random.key(0), rank=2, alpha=4.0, targets='.*/query'
  )
  with served.serving() as (client, _, (model,)):
    publish(client, made, tmp_path)
    sent = safetensors.load_file(tmp_path / 'version-1' / 'model.safetensors')
    assert not any('lora' in name for name in sent)
    assert model.weight == 0.5
  with served.serving() as (client, _, (model,)):
    model._update_weights_from_disk = functools.partial(lost, model)
    with pytest.raises(sync.SyncError, match='differ from the trainer by 0.5'):
      publish(client, made, tmp_path)


def test_36_a_sampler_that_was_not_updated_stops_the_run():
  said = plain.Canned(plain.sample([5, 2], version=3))
  rolled = plain.roll_out(said, plain.env())
  batch.check_versions(rolled, 3)
  with pytest.raises(RuntimeError, match='was given version 4'):
    batch.check_versions(rolled, 4)
