"""Weights published to servers, and what is noticed if they do not arrive."""

import base64
import collections
import functools
import io
import pickle
import struct
import threading
import time

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import served

from arl.models import hf, hf_files, sizes, transformer
from arl.rollout import engine, local
from arl.train import sync, sync_tensors
from experiments.studies import pretend

SIZE = sizes.tiny(pretend.VOCAB)
IDS = list(range(2, 40, 3))
PLAIN = engine.Sampling()


def params(weight):
  """Parameters of which a server that pretends looks at one number."""
  made = transformer.make(SIZE).init(jax.random.key(0))
  made['norm']['scale'] = jnp.full_like(made['norm']['scale'], weight)
  return made


def trainers(made):
  weight = float(made['norm']['scale'][0])
  return np.array(pretend.logp(weight, IDS), np.float32)


PROBE = sync.Probe(IDS, trainers, 1e-4)
TENSORS = functools.partial(sync.tensors, size=SIZE, probe=PROBE)


def disk(folder):
  return functools.partial(sync.disk, size=SIZE, folder=folder, probe=PROBE)


@pytest.mark.parametrize('mode', sync.MODES)
def test_weights_arrive_through_a_folder(mode, tmp_path):
  publish, made = disk(tmp_path), [params(0.5), params(0.25)]
  with served.serving(count=2, pace=0.1) as (client, _, models):
    found = []
    long = engine.Request((1,), 400, (0,))
    running = threading.Thread(
      target=lambda: found.extend(client.generate([long], PLAIN))
    )
    running.start()
    served.wait_for(lambda: any(model.running for model in models))
    time.sleep(0.3)
    for version, weight in ((1, 0.5), (2, 0.25)):
      publish(client, made[version - 1], version, mode=mode)
      assert client.version == version
      assert [(m.version, m.weight) for m in models] == [
        (str(version), weight)
      ] * 2
      (sample,) = client.generate(served.requests(1, most=2), PLAIN)
      assert set(sample.versions.tolist()) == {version}
    for model in models:
      model.pace = 0.0  # the long one may end now
    running.join()
    (sample,) = found
    if mode == sync.ABORT:
      assert sample.finish == engine.ABORT
      assert set(sample.versions.tolist()) == {0}
    else:
      assert sample.finish == engine.LENGTH
      assert sorted(set(sample.versions.tolist()))[0] == 0
      assert len(set(sample.versions.tolist())) > 1
      assert np.all(np.diff(sample.versions) >= 0)
  assert [path.name for path in tmp_path.iterdir()] == ['version-2']


@pytest.mark.parametrize('mode', sync.MODES)
def test_35_nothing_computed_before_is_used_after(mode, tmp_path):
  with served.serving() as (client, _, (model,)):
    request = engine.Request((1, 2, 3), 4, (0,))
    client.generate([request], PLAIN)
    (again,) = client.generate([request], PLAIN)
    assert again.cached == 2
    disk(tmp_path)(client, params(0.5), 1, mode=mode)
    (after,) = client.generate([request], PLAIN)
    assert after.cached == 0
    flushed = [
      body['flush_cache']
      for path, body in model.calls
      if path == '/update_weights_from_disk'
    ]
    assert flushed == [mode != sync.IN_PLACE]


def lost(model, body):  # success, and the new version, without the weights
  return model._updated(body)


def kept(model, body):  # the weights, over what the old ones computed
  model._update_weights_from_disk_(body)
  model.cache.add(('arl-probe', *IDS))
  return {'success': True}


def unnamed(model, body):
  return model._update_weights_from_disk_({**body, 'weight_version': '7'})


def refused(model, body):
  return {'success': False, 'message': 'no such folder'}


FAILURES = [
  (lost, 'log-probs differ from the trainer by 0.5'),
  (kept, 'kept 12 tokens of the probe'),
  (unnamed, "it names '7'"),
  (refused, 'no such folder'),
]


@pytest.mark.parametrize('fault, what', FAILURES)
def test_36_weights_that_do_not_arrive_stop_the_run(fault, what, tmp_path):
  with served.serving() as (client, _, (model,)):
    model._update_weights_from_disk_ = model._update_weights_from_disk
    model._update_weights_from_disk = functools.partial(fault, model)
    with pytest.raises(sync.SyncError, match=what):
      disk(tmp_path)(client, params(0.5), 1)
    assert client.version == 0
    assert model.held is None  # and it was not left paused


def test_an_answer_that_is_lost_is_no_proof_of_a_stale_cache(tmp_path):
  with served.serving() as (client, (server,), _):
    faults = ['lost']

    def choose(path, body):
      probed = body and body.get('extra_key') == 'arl-probe'
      return faults.pop() if probed and faults else ''

    server.choose = choose
    disk(tmp_path)(client, params(0.5), 1)
    assert server.seen == {'lost': 1}


def test_a_server_that_is_gone_stops_the_run_and_none_stays_paused(tmp_path):
  told = {'patience': 0.2}
  with served.serving(count=2, keywords=told) as (client, servers, models):

    def die(body):
      threading.Thread(target=servers[1].kill).start()
      time.sleep(0.3)
      return {'success': True}

    models[1]._update_weights_from_disk = die
    with pytest.raises(sync.SyncError, match='failed.*' + servers[1].url):
      disk(tmp_path)(client, params(0.5), 1)
    assert models[0].held is None


def test_a_model_of_other_tensors_is_refused_before_anything(tmp_path):
  other = SIZE._replace(qk_norm=True, family='qwen3')
  fresh = transformer.make(other).init(jax.random.key(0))
  hf.save(tmp_path / 'served', jax.device_get(fresh), other)
  with served.serving() as (client, _, (model,)):
    client.met = client.met._replace(folders=(str(tmp_path / 'served'),))
    before = len(model.calls)
    with pytest.raises(sync.SyncError, match='k_norm'):
      disk(tmp_path / 'w')(client, params(0.5), 1)
    assert len(model.calls) == before


def test_a_mode_that_is_none(tmp_path):
  with (
    served.serving() as (client, _, _),
    pytest.raises(ValueError, match='retract'),
  ):
    disk(tmp_path)(client, params(0.5), 1, mode='wait')


def paths(model):
  return [path for path, _ in model.calls if 'update' in path]


def by_value(model, body):
  """What a server does with tensors that came inside a call."""
  (text,) = body['serialized_named_tensors']
  model.weight = float(decode(text)['model.norm.weight'][0])
  return model._updated(body)


def test_weights_arrive_by_value_inside_a_session():
  with served.serving() as (client, _, (model,)):
    model._update_weights_from_tensor = functools.partial(by_value, model)
    TENSORS(client, params(0.5), 1)
    assert (model.version, model.weight) == ('1', 0.5)
    assert paths(model) == [
      '/begin_weight_update',
      '/update_weights_from_tensor',
      '/end_weight_update',
    ]


def test_servers_without_sessions_get_none():
  with served.serving() as (client, _, (model,)):
    model._begin_weight_update = None  # 404
    model._update_weights_from_tensor = functools.partial(by_value, model)
    TENSORS(client, params(0.5), 1)
    assert paths(model) == [
      '/begin_weight_update',
      '/update_weights_from_tensor',
    ]


def test_a_session_that_fails_is_ended():
  with served.serving() as (client, _, (model,)):
    model._update_weights_from_tensor = lambda body: {'success': False}
    with pytest.raises(sync.SyncError, match='update to version 1 failed'):
      TENSORS(client, params(0.5), 1)
    assert paths(model)[-1] == '/end_weight_update'


def test_an_engine_publishes_with_what_it_was_given(tmp_path):
  told = {'publish': disk(tmp_path)}
  with served.serving(keywords=told) as (client, _, (model,)):
    client.set_params(params(0.75), 3)
    assert (client.version, model.weight) == (3, 0.75)


def test_the_probe_is_what_the_engine_in_process_scores():
  made = params(1.5)
  model = transformer.make(SIZE)
  ours = local.LocalEngine(model, made, slots=2, context=64, seed=0)
  logp = sync.probe(model, IDS, 1e-4).logp({**made, 'value_head': {}})
  np.testing.assert_allclose(logp, ours.score([IDS], 1.0)[0], atol=1e-5)


class Unpickler(pickle.Unpickler):
  """Reads what torch would read, into arrays."""

  def find_class(self, module, name):
    found = {
      'torch.storage._load_from_bytes': load_storage,
      'torch._utils._rebuild_tensor_v2': rebuild,
      'collections.OrderedDict': collections.OrderedDict,
      'torch.FloatStorage': np.float32,
      'torch.HalfStorage': np.float16,
      'torch.BFloat16Storage': ml_dtypes.bfloat16,
    }
    return found[f'{module}.{name}']

  def persistent_load(self, described):
    return described


def load_storage(data):
  """The array in a file of torch.save's older format."""
  file = io.BytesIO(data)
  assert pickle.load(file) == 0x1950A86A20F9469CFC6C
  assert pickle.load(file) == 1001
  assert pickle.load(file)['little_endian']
  kind, dtype, key, place, size, view = Unpickler(file).load()
  assert (kind, place, view) == ('storage', 'cpu', None)
  assert pickle.load(file) == [key]
  (stored,) = struct.unpack('<q', file.read(8))
  assert stored == size
  return np.frombuffer(file.read(), dtype)


def rebuild(storage, offset, shape, strides, grad, hooks):
  assert (offset, grad, hooks) == (0, False, {})
  return np.lib.stride_tricks.as_strided(
    storage, shape, [s * storage.itemsize for s in strides]
  )


def decode(text):
  return dict(Unpickler(io.BytesIO(base64.b64decode(text))).load())


@pytest.mark.parametrize('dtype', ['float32', 'float16', 'bfloat16'])
def test_tensors_are_written_as_torch_reads_them(dtype, tmp_path):
  hf.save(tmp_path / 'w', jax.device_get(params(0.5)), SIZE, dtype=dtype)
  arrays = hf_files.read(tmp_path / 'w')
  arrays['turned'] = arrays['model.layers.0.mlp.up_proj.weight'].T
  read = decode(sync_tensors.encode(arrays))
  assert read.keys() == arrays.keys()
  for name, array in arrays.items():
    assert read[name].dtype == array.dtype
    np.testing.assert_array_equal(read[name], array)
